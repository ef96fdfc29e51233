"""One look after the other at a GPU that others work on, so cheap that it does not disturb them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from joulelab.core.device import DeviceIdentity, DeviceState, EventReason, GpuProcess
from joulelab.devices.base import Device
from joulelab.errors import JouleLabError

T = TypeVar("T")

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
    power_w: float | None  # board power now, in watts
    # Mean between the last two reads of the energy counter, in watts; None before the second.
    mean_power_w: float | None
    mean_over_s: float | None  # time between them, in seconds
    # The energy counter when last read, in joules since an origin of the driver's.
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

    ``index`` is its place in the driver's order; ``slow_period_s`` the shortest time between two
    reads of what the driver is slow to tell: the energy counter, 3 ms on an H200, and the
    processes.
    """

    def __init__(self, index: int, device: Device, *, slow_period_s: float = 5.0) -> None:
        self._index = index
        self._device = device
        self._identity = device.identity()
        self._slow_period_s = slow_period_s
        self._due_s = -float("inf")
        self._first: _Count | None = None
        self._before: _Count | None = None
        self._latest: _Count | None = None
        self._reset: str | None = None
        self._processes: tuple[GpuProcess, ...] | None = None
        self._slow_unread: dict[str, str] = {}

    def read(self) -> LiveReading:
        """Look once; a sensor that fails is missing from the reading."""
        started_s = time.perf_counter()
        unread: dict[str, str] = {}
        power_w = _tried("power_w", self._device.read_power_w, unread)
        state = _tried("state", self._device.read_live_state, unread)
        if (now_s := self._device.clock.now_s()) >= self._due_s:
            self._due_s = now_s + self._slow_period_s
            self._read_slow()
        mean_power_w, mean_over_s = self._mean()
        return LiveReading(
            index=self._index,
            identity=self._identity,
            power_w=power_w,
            mean_power_w=mean_power_w,
            mean_over_s=mean_over_s,
            energy_j=self._latest and self._latest.energy_j,
            energy_since_start_j=self._since_start_j(),
            state=state,
            processes=self._processes,
            unread=unread | self._slow_unread,
            cost_s=time.perf_counter() - started_s,
        )

    def _read_slow(self) -> None:
        unread = self._slow_unread = dict[str, str]()
        self._before, self._latest = self._latest, _tried("energy_j", self._count, unread)
        self._processes = _tried("processes", self._device.read_processes, unread)
        if self._latest is None:
            return
        if self._before is not None and self._latest.energy_j < self._before.energy_j:
            self._before = None
            self._reset = "The energy counter began anew, as when the driver is loaded again."
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
        return self._latest.energy_j - self._first.energy_j


def _tried(what: str, read: Callable[[], T], unread: dict[str, str]) -> T | None:
    try:
        return read()
    except JouleLabError as error:
        unread[what] = str(error)
        return None
