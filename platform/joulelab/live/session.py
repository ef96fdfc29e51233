"""Several GPUs of this machine, looked at together for as long as somebody watches."""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.errors import JouleLabError
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import HeldLease
from joulelab.guard.settings import default_socket_path
from joulelab.live.activity import Activity, read_activities
from joulelab.live.reading import LiveGpu, LiveReading
from joulelab.tracking.study import StudyState, read_state

_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loans:
    """What a clock guard has on loan."""

    by_uuid: dict[str, HeldLease] = field(default_factory=dict)
    # Why the settings of a GPU that was on loan could not be restored yet.
    unrestored: dict[str, str] = field(default_factory=dict)
    unread: str | None = None  # why the guard could not be asked; None if it answered


def read_loans(socket_path: Path) -> Loans:
    """Ask the clock guard at ``socket_path``; starts none, and waits a second at most."""
    try:
        status = GuardClient(socket_path, start=False).status(timeout_s=_PATIENCE_S)
    except JouleLabError as error:
        return Loans(unread=str(error))
    return Loans(
        by_uuid={lease.address.uuid: lease for lease in status.leases},
        unrestored={each.address.uuid: each.error for each in status.pending},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """What the GPUs of a machine are doing now."""

    gpus: tuple[LiveReading, ...]  # a reading of each, in the driver's order
    loans: Loans  # what the clock guard has on loan
    activities: dict[str, Activity]  # what a study does on each GPU that one measures on, by UUID
    studies: dict[str, StudyState]  # how far this user's studies are that do so, by name
    # Processor time that this process has used since it began to watch, as a share of one core;
    # None at the first look.
    core_share: float | None


class LiveSession:
    """Opens GPUs for reading only, in the program's time, and looks at them when asked.

    They are given by their place in the driver's order. The guard at ``guard_socket``, by default
    the one that studies take, is asked who holds what.

    Raises:
        DeviceError: If a GPU cannot be opened.
    """

    def __init__(
        self,
        addresses: Mapping[int, DeviceAddress],
        *,
        guard_socket: Path | None = None,
        slow_period_s: float = 5.0,
    ) -> None:
        some = next(iter(addresses.values()))
        self._addresses = tuple(addresses.values())
        self._guard_socket = guard_socket
        self._socket = guard_socket or default_socket_path(some)
        self._open = ExitStack()
        self._gpus: list[LiveGpu] = []
        with self._open:
            for index, address in sorted(addresses.items()):
                opened = DEVICES[address.backend].open_in_real_time(address)
                device = self._open.enter_context(closing(opened))
                self._gpus.append(LiveGpu(index, device, slow_period_s=slow_period_s))
            self._open = self._open.pop_all()
        self._began: tuple[float, float] | None = None

    def look(self) -> LiveView:
        """Read every GPU once, who holds it, and what a study does there."""
        activities = self._activities()
        return LiveView(
            gpus=tuple(gpu.read() for gpu in self._gpus),
            loans=read_loans(self._socket),
            activities=activities,
            studies=_states(activities.values()),
            core_share=self._core_share(),
        )

    def close(self) -> None:
        """Let go of the GPUs. Safe to call twice."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _activities(self) -> dict[str, Activity]:
        found = read_activities(self._guard_socket)
        return {
            address.uuid: each
            for each in found
            for address in self._addresses
            if each.is_on(address)
        }

    def _core_share(self) -> float | None:
        now = (time.monotonic(), time.process_time())
        if self._began is None:
            self._began = now
            return None
        return (now[1] - self._began[1]) / (now[0] - self._began[0])


def _states(activities: Iterable[Activity]) -> dict[str, StudyState]:
    """Read how far studies are; another user's folder is not read, since it may be any path."""
    found = {}
    for folder in {each.folder for each in activities if each.uid == os.getuid()}:
        with suppress(JouleLabError):
            if (state := read_state(Path(folder))) is not None:
                found[state.study] = state
    return found
