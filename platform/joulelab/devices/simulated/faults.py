"""What can go wrong with a simulated GPU, as one line of text each."""

from dataclasses import dataclass, fields
from math import inf
from typing import Literal, get_args

from joulelab.core.device import EventReason
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

FaultKind = Literal[
    "lost",
    "frozen_counter",
    "stale_power",
    "counter_reset",
    "refused",
    "throttle",
    "slow_clock",
    "foreign_process",
]
"""What goes wrong.

* ``lost``: every call fails, for good.
* ``frozen_counter``: the energy counter stands still; it catches up when the fault ends.
* ``stale_power``: every power reading, buffered samples included, stands still.
* ``counter_reset``: the energy counter starts again from zero.
* ``refused``: the driver refuses setters though the process has the right to call them.
* ``throttle``: the clock is held below ``clock_mhz`` for ``reason``, or the inlet air is
  ``ambient_c``, which makes the device throttle by itself.
* ``slow_clock``: a clock change takes ``latency_s``.
* ``foreign_process``: somebody else's process ``pid`` holds ``memory_b`` and draws ``power_w``.
"""

ThrottleReason = Literal["power_cap", "sw_thermal", "hw_thermal"]

_EVENTS: dict[ThrottleReason, EventReason] = {
    "power_cap": EventReason.SW_POWER_CAP,
    "sw_thermal": EventReason.SW_THERMAL,
    "hw_thermal": EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault and when it holds."""

    kind: FaultKind
    at_s: float = 0.0  # device time from which it holds; at once if it is in the past
    until_s: float = inf
    clock_mhz: int | None = None  # throttle: the highest clock left; None for no limit of its own
    reason: ThrottleReason = "power_cap"  # throttle: what the driver calls it
    ambient_c: float | None = None  # throttle: inlet air; None leaves it as it is
    latency_s: float = 0.5  # slow_clock: how long a change takes
    pid: int = 1  # foreign_process: its process id
    power_w: float = 50.0  # foreign_process: what it adds to the board's power
    memory_b: int = 1 << 30  # foreign_process: device memory it holds

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise unknown_name("fault", self.kind, get_args(FaultKind))
        if self.reason not in _EVENTS:
            raise unknown_name("throttle reason", self.reason, _EVENTS)

    def holds(self, time_s: float) -> bool:
        """Whether the fault is there at device time ``time_s``."""
        return self.at_s <= time_s < self.until_s

    @property
    def event(self) -> EventReason:
        """The driver's bits for :attr:`reason`."""
        return _EVENTS[self.reason]

    @property
    def line(self) -> str:
        """The fault as it stands in the driver's store: ``kind key=value ...``."""
        given = [f.name for f in fields(self)[1:] if getattr(self, f.name) != f.default]
        return " ".join([self.kind, *(f"{name}={getattr(self, name)}" for name in given)])

    @classmethod
    def parse(cls, line: str) -> "Fault":
        """Read a fault from its line; ConfigError if the line names no known fault or setting."""
        kind, *settings = line.split()
        known = {f.name: f for f in fields(cls)[1:]}
        values: dict[str, object] = {}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name not in known:
                raise unknown_name(f"setting of fault {kind!r}", name, known)
            values[name] = _parsed(name, text)
        return cls(kind=kind, **values)  # type: ignore[arg-type]


def _parsed(name: str, text: str) -> object:
    if name == "reason":
        return text
    try:
        return int(text) if name in {"clock_mhz", "pid", "memory_b"} else float(text)
    except ValueError as error:
        raise ConfigError(f"{name} of a fault must be a number, got {text!r}.") from error
