"""The GPUs of this machine read as they are now, and who holds them; without any setter."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from joulelab.core.device import DeviceAddress, DeviceIdentity, DeviceState, EventReason, GpuProcess
from joulelab.devices.base import Device
from joulelab.devices.choice import open_in_real_time
from joulelab.errors import DeviceUnsupportedError, JouleLabError
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import HeldLease
from joulelab.guard.settings import default_socket_path
from joulelab.live.activity import TrialActivity, read_activities
from joulelab.tracking.study import StudyState, read_state

T = TypeVar("T")

_PATIENCE_S = 1.0
_AVERAGED_S = 2.0
"""Drivers average power over the last second: looks further apart would see less than half."""
_PROCESSES_PERIOD_S = 5.0
THROTTLES = {
    EventReason.SW_POWER_CAP: "power cap",
    EventReason.HW_POWER_BRAKE: "external power brake",
    EventReason.SW_THERMAL: "heat, by the driver",
    EventReason.HW_THERMAL: "heat, by the hardware",
    EventReason.HW_SLOWDOWN: "hardware slowdown",
    EventReason.BOARD_LIMIT: "board limit",
    EventReason.RELIABILITY: "reliability limit",
    EventReason.SYNC_BOOST: "slower GPU of a sync boost group",
}
"""Reasons that slow a GPU under load, in words; the others are rest and settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReading:
    """What a GPU is doing now. What could not be read is ``None``, its reason in :attr:`unread`."""

    index: int  # place of the GPU in the driver's order, from 0
    identity: DeviceIdentity
    # Board power, in watts: of the last second where the driver averages it, else now.
    power_w: float | None
    # Mean between the last two reads of the energy counter, in watts; None before the second.
    mean_power_w: float | None
    mean_over_s: float | None  # time between them, in seconds
    # The energy counter, in joules since an origin of the driver's; it never falls but for a reset.
    energy_j: float | None
    energy_since_start_j: float | None  # what it advanced by since the first reading, in joules
    # Clocks, temperature, limit, what holds the clocks down, utilisation, memory in use.
    state: DeviceState | None
    processes: tuple[GpuProcess, ...] | None
    # Reason of each of these that is missing, by its name.
    unread: Mapping[str, str] = field(default_factory=dict)
    cost_s: float  # how long the reading took, in seconds

    @property
    def throttles(self) -> dict[EventReason, bool] | None:
        """Whether each reason to throttle holds now; ``None`` if unread."""
        if self.state is None:
            return None
        return {reason: reason in self.state.event_reasons for reason in THROTTLES}


class _Count(NamedTuple):
    at_s: float
    energy_j: float


class LiveGpu:
    """Reads one GPU, which stays the caller's to close, again and again.

    ``index`` is its place in the driver's order. A read of the energy counter takes 3.5 ms of a
    processor on an H200, forty times as long as one of power: looks of every second read it once
    in ``counter_period_s``, and bring it forward by the driver's mean power in between.
    """

    def __init__(self, index: int, device: Device, *, counter_period_s: float = 5.0) -> None:
        self._index = index
        self._device = device
        self._identity = device.identity()
        self._counter_period_s = counter_period_s
        self._due_s = self._processes_due_s = self._looked_s = -float("inf")
        self._averages = True  # whether the driver averages power, until it says no
        self._energy_j = 0.0
        self._first: _Count | None = None
        self._before: _Count | None = None
        self._latest: _Count | None = None
        self._reset: str | None = None
        self._energy_unread: dict[str, str] = {}
        self._processes: tuple[GpuProcess, ...] | None = None
        self._processes_unread: dict[str, str] = {}

    def read(self) -> LiveReading:
        """Look once; a sensor that fails is missing from the reading."""
        started_s = time.perf_counter()
        unread: dict[str, str] = {}
        power_w = _tried("power_w", self._read_power_w, unread)
        state = _tried("state", self._device.read_live_state, unread)
        self._read_processes()
        self._read_energy(power_w)
        mean_power_w, mean_over_s = self._mean()
        return LiveReading(
            index=self._index,
            identity=self._identity,
            power_w=power_w,
            mean_power_w=mean_power_w,
            mean_over_s=mean_over_s,
            energy_j=None if self._latest is None else self._energy_j,
            energy_since_start_j=self._since_start_j(),
            state=state,
            processes=self._processes,
            unread=unread | self._processes_unread | self._energy_unread,
            cost_s=time.perf_counter() - started_s,
        )

    def _read_power_w(self) -> float:
        if self._averages:
            try:
                return self._device.read_average_power_w()
            except DeviceUnsupportedError:
                self._averages = False
        return self._device.read_power_w()

    def _read_processes(self) -> None:
        if (now_s := self._device.clock.now_s()) >= self._processes_due_s:
            self._processes_due_s = now_s + _PROCESSES_PERIOD_S
            unread = self._processes_unread = dict[str, str]()
            self._processes = _tried("processes", self._device.read_processes, unread)

    def _read_energy(self, power_w: float | None) -> None:
        now_s = self._device.clock.now_s()
        since_s, self._looked_s = now_s - self._looked_s, now_s
        is_averaged = self._averages and since_s <= _AVERAGED_S
        if self._latest is None or power_w is None or not is_averaged or now_s >= self._due_s:
            self._due_s = now_s + self._counter_period_s
            self._read_counter()
        else:
            self._energy_j += since_s * power_w

    def _read_counter(self) -> None:
        unread = self._energy_unread = dict[str, str]()
        self._before = self._latest or self._before
        self._latest = _tried("energy_j", self._count, unread)
        if self._latest is None:
            return
        if self._before is not None and self._latest.energy_j < self._before.energy_j:
            self._before, self._energy_j = None, 0.0
            self._reset = "The energy counter began anew, as when the driver is loaded again."
        # What falls would be taken for a reset: it waits until the counter has come up to it.
        self._energy_j = max(self._energy_j, self._latest.energy_j)
        self._first = self._first or self._latest
        if self._reset is not None:
            unread["energy_since_start_j"] = self._reset

    def _count(self) -> _Count:
        before_s = self._device.clock.now_s()
        energy_j = self._device.read_energy_j()
        return _Count((before_s + self._device.clock.now_s()) / 2, energy_j)

    def _mean(self) -> tuple[float | None, float | None]:
        if self._latest is None or self._before is None:
            return None, None
        over_s = self._latest.at_s - self._before.at_s
        if not over_s > 0:
            return None, None
        return (self._latest.energy_j - self._before.energy_j) / over_s, over_s

    def _since_start_j(self) -> float | None:
        if self._latest is None or self._first is None or self._reset is not None:
            return None
        return self._energy_j - self._first.energy_j


def _tried(what: str, read: Callable[[], T], unread: dict[str, str]) -> T | None:
    try:
        return read()
    except JouleLabError as error:
        unread[what] = str(error)
        return None


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
    activities: dict[str, TrialActivity]  # on each GPU that a study measures on, by UUID
    studies: dict[str, StudyState]  # how far this user's studies are that do so, by name
    # Processor time that this process has used since it began to watch, as a share of one core;
    # None at the first look.
    core_share: float | None


class LiveSession:
    """Opens GPUs for reading only, in the program's time, and looks at them when asked.

    They are given by their place in the driver's order. The guard at ``guard_socket``, by default
    the one that studies take, is asked who holds what. Raises DeviceError if a GPU cannot be
    opened.
    """

    def __init__(
        self,
        addresses: Mapping[int, DeviceAddress],
        *,
        guard_socket: Path | None = None,
        counter_period_s: float = 5.0,
    ) -> None:
        some = next(iter(addresses.values()))
        self._addresses = tuple(addresses.values())
        self._guard_socket = guard_socket
        self._socket = guard_socket or default_socket_path(some)
        self._open = ExitStack()
        self._gpus: list[LiveGpu] = []
        with self._open:
            for index, address in sorted(addresses.items()):
                device = self._open.enter_context(closing(open_in_real_time(address)))
                self._gpus.append(LiveGpu(index, device, counter_period_s=counter_period_s))
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

    def _activities(self) -> dict[str, TrialActivity]:
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


def _states(activities: Iterable[TrialActivity]) -> dict[str, StudyState]:
    """Read how far studies are; another user's folder is not read, since it may be any path."""
    found = {}
    for folder in {each.folder for each in activities if each.uid == os.getuid()}:
        with suppress(JouleLabError):
            if (state := read_state(Path(folder))) is not None:
                found[state.study] = state
    return found
