"""What a governor sees of a GPU, of itself and of others, from one look to the next."""

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from joulelab.core.device import Activity, EventReason
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import ActivityProbe, Device
from joulelab.errors import MeasurementError
from joulelab.monitor.sensors import OwnProcesses

LEAST_S = 0.02
"""Over less than a power sample's length nothing is known of a window."""
CAPPED = EventReason.SW_POWER_CAP | EventReason.HW_POWER_BRAKE
HOT = EventReason.SW_THERMAL | EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN
HELD_BACK = CAPPED | HOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A GPU from one look to a later one."""

    start_s: float
    stop_s: float
    power_w: float
    activity: Activity  # mean activity of the units
    sm_clock_mhz: float  # mean of the SM clock at all looks
    least_clock_mhz: float  # the lowest of them
    is_settled: bool  # whether all looks saw one SM clock
    reasons: EventReason  # what held the clock down at any look
    num_looks: int = 1  # how many times it was looked until the end

    @property
    def duration_s(self) -> float:
        """Time between the first look and the last."""
        return self.stop_s - self.start_s

    @property
    def energy_j(self) -> float:
        """Energy between them."""
        return self.power_w * self.duration_s

    @property
    def engine_active(self) -> float:
        """Share of the time in which any kernel ran."""
        return self.activity.gr_engine_active or 0.0


LONGEST_S = 2.0
"""So long at most are activity and power not computed; drivers hold power samples of 2.4 s."""
_MOVED, _MOVED_W, _MOVED_CLOCK = 0.06, 6.0, 0.03
"""Power and clock are others where they differ by more than these shares, and power by so many
watts. Estimates: readings of a steady load scatter by 0.3 % of power on simulated boards, clocks of
an H200 by a step of 15 MHz. Phases that differ by less are told apart after ``LONGEST_S``."""


class Expected(NamedTuple):
    """What a look sees where nothing changed."""

    power_w: float
    sm_clock_mhz: float


_Look = tuple[float, int]  # when, and the SM clock in MHz
_Part = tuple[list[_Look], Activity, EventReason]


class Observer:
    """Reads one device, window after window.

    A brief look marks the counters of activity, and reads power and clock. As long as these are as
    expected, the window goes on, unless it is long enough. What came since the last look at which
    they were is a window of its own.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        capabilities = device.capabilities()
        self._has_samples = capabilities.has_power_samples
        self.counts_activity = capabilities.has_activity
        self._probe: ActivityProbe | None = None
        state = device.read_brief_state()
        self._reasons = state.event_reasons  # at the end of the last window
        self._looks: list[_Look] = [(device.clock.now_s(), state.sm_clock_mhz)]
        if self.counts_activity:
            self._probe = device.activity()
        self.may_be_brief = self._probe is not None and self._probe.can_mark
        """Whether a look can be cheaper than others."""

    @property
    def start_s(self) -> float:
        """When the window that goes on began."""
        return self._looks[0][0]

    def look(self, expected: Expected | None = None) -> tuple[Observation, ...] | None:
        """Return what was since the windows that were returned last, in one window or two.

        There is none yet where all is as ``expected``. ``None`` if the last one began too short ago
        for anything to be known. Raises DeviceLostError if the device has gone.
        """
        now_s = self._device.clock.now_s()
        if now_s - self._looks[-1][0] < LEAST_S:
            return None
        is_same = False
        if expected is not None and self._probe is not None and self.may_be_brief:
            clock_mhz = self._device.read_sm_clock_mhz()
            is_same = self._is_as(expected, clock_mhz)
            if is_same and now_s - self.start_s < LONGEST_S:
                with suppress(MeasurementError):  # the driver wants more time between two
                    self._probe.mark()
                    self._looks.append((now_s, clock_mhz))
                return ()
        parts = self._parts(now_s, is_cut=not is_same)
        return self._observed(parts) if parts else None

    def _is_as(self, expected: Expected, clock_mhz: int) -> bool:
        """Whether clock and power are as expected; power is not read where the clock is not."""
        off_mhz = abs(clock_mhz - expected.sm_clock_mhz)
        if off_mhz > _MOVED_CLOCK * expected.sm_clock_mhz:
            return False
        off_w = abs(self._device.read_power_w() - expected.power_w)
        return off_w <= max(_MOVED * expected.power_w, _MOVED_W)

    def _parts(self, now_s: float, *, is_cut: bool) -> list[_Part]:
        """End the window, or two of them; return the looks of each, activity, and reasons.

        The last one goes on if the driver wants more time between two reads.
        """
        parts: list[_Part] = []
        if self._probe is not None and is_cut and len(self._looks) > 1:
            parts.append((self._looks, self._probe.read_to_mark(), self._reasons))
            self._looks = self._looks[-1:]
        try:
            activity = None if self._probe is None else self._probe.read()
        except MeasurementError:
            return parts
        state = self._device.read_brief_state()
        # Without counters of activity a driver tells whether a kernel ran.
        activity = activity or Activity(gr_engine_active=state.gpu_utilization)
        look = now_s, state.sm_clock_mhz
        parts.append(([*self._looks, look], activity, self._reasons | state.event_reasons))
        self._looks, self._reasons = [look], state.event_reasons
        return parts

    def _observed(self, parts: list[_Part]) -> tuple[Observation, ...]:
        samples = self._device.read_power_samples() if self._has_samples else None
        found = []
        for looks, activity, reasons in parts:
            power_w = self._mean_w(looks[0][0], looks[-1][0], samples)
            found.append(_observation(looks, activity, reasons, power_w))
        return tuple(found)

    def _mean_w(self, start_s: float, stop_s: float, samples: PowerTrace | None) -> float:
        """Return the mean of the driver's own samples, or of one reading where it holds none."""
        if samples is not None:
            first, after = np.searchsorted(samples.t_s, (start_s, stop_s), side="right")
            if first < after:
                return float(samples.power_w[first:after].mean())
        return self._device.read_power_w()


def _observation(
    looks: list[_Look], activity: Activity, reasons: EventReason, power_w: float
) -> Observation:
    clocks_mhz = [clock_mhz for _, clock_mhz in looks]
    ends_mhz = (clocks_mhz[0] + clocks_mhz[-1]) / 2
    return Observation(
        start_s=looks[0][0],
        stop_s=looks[-1][0],
        power_w=power_w,
        activity=activity,
        sm_clock_mhz=(sum(clocks_mhz[1:-1]) + ends_mhz) / (len(looks) - 1),
        least_clock_mhz=min(clocks_mhz),
        is_settled=max(clocks_mhz) - min(clocks_mhz) <= CLOCK_TOLERANCE_MHZ,
        reasons=reasons,
        num_looks=len(looks) - 1,
    )


LOOK_S = 2.0


class Tenants:
    """Looks for processes that are not those that are governed.

    These are ``own``, by default those that are there at the first look that finds any.
    """

    def __init__(self, device: Device, own: OwnProcesses | None = None) -> None:
        self._device = device
        self._own = own
        self._first: frozenset[int] = frozenset()
        self._looked_s = -float("inf")
        self.foreign: frozenset[int] = frozenset()
        """Ids of those seen at the last look."""

    def look(self, now_s: float) -> bool:
        """Look again if that is due; return whether somebody new is there."""
        if now_s - self._looked_s < LOOK_S:
            return False
        self._looked_s, before = now_s, self.foreign
        pids = frozenset(process.pid for process in self._device.read_processes())
        self._first = self._first or pids
        own = self._first if self._own is None else self._own.pids(self._device)
        self.foreign = pids - own
        return bool(self.foreign - before)
