"""Options of commands that drive a program; imports little, so that it starts at once."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import tyro

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError

if TYPE_CHECKING:  # these would bring numpy before a program has started
    from joulelab.core.device import DeviceAddress
    from joulelab.running.measure import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOptions:
    """What a command puts in force on its GPUs."""

    sm_clock_mhz: int | None = None  # Locked SM clock; by default the driver's own.
    mem_clock_mhz: int | None = None  # Locked memory clock; by default the driver's own.
    # Board power limit; by default the driver's own. Under --observe-only it must be in force
    # already.
    power_limit_w: float | None = None
    observe_only: bool = False  # Call no setter, ever: measure at the clocks that there are.
    # Socket of the clock guard that clocks are borrowed from; by default the system's, or else one
    # that is started for it.
    guard_socket: Path | None = None

    @property
    def point(self) -> OperatingPoint:
        """What is asked for; ConfigError if it locks clocks, which an observer cannot."""
        point = OperatingPoint(
            sm_clock_mhz=self.sm_clock_mhz,
            mem_clock_mhz=self.mem_clock_mhz,
            power_limit_w=self.power_limit_w,
        )
        if self.observe_only and point.locks_clocks:
            raise ConfigError(
                "--observe-only measures at the driver's own clocks; drop it, or drop "
                "--sm-clock-mhz and --mem-clock-mhz."
            )
        return point

    def borrow(self, stack: ExitStack, gpus: "Sequence[DeviceAddress]", note: str) -> "Settings":
        """Put the point in force on ``gpus`` until ``stack`` ends."""
        from joulelab.running.measure import borrow
        from joulelab.study.abstract_lab import check_guard_socket

        check_guard_socket(self.guard_socket)
        return borrow(
            stack,
            self.point,
            gpus,
            observe_only=self.observe_only,
            guard_socket=self.guard_socket,
            note=note,
        )


def check_places(json: str | None, mlflow: str | None) -> None:
    """Refuse places for a result that cannot be written to, before anything is run."""
    if json not in (None, "-") and not Path(json or "").absolute().parent.is_dir():
        raise ConfigError(f"--json must name a file in a folder that is there, got {json}.")
    if mlflow is not None:
        from joulelab.tracking.mlflow_store import usable_uri

        usable_uri(mlflow)


def write_result(text: str, target: str) -> None:
    """Write a result to a file, or with ``-`` to the standard output."""
    from joulelab.tracking.durable import write_whole

    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_whole(Path(target), text)


Command = TypeVar("Command")
_SEPARATOR = "--"


def parse_before_dashes(
    kind: type[Command], arguments: Sequence[str], *, prog: str
) -> tuple[Command, tuple[str, ...]]:
    """Read the options before two dashes; return them and the words that follow."""
    words = list(arguments)
    at = words.index(_SEPARATOR) if _SEPARATOR in words else len(words)
    config = (tyro.conf.FlagCreatePairsOff,)
    return tyro.cli(kind, args=words[:at], prog=prog, config=config), tuple(words[at + 1 :])
