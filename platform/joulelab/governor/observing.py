"""What a governor sees of a GPU, of itself and of others, from one look to the next."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from joulelab.core.device import Activity, EventReason
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
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
    """A GPU between two looks."""

    start_s: float
    stop_s: float
    power_w: float
    activity: Activity  # mean activity of the units
    sm_clock_mhz: float  # mean of the SM clock at both looks
    least_clock_mhz: float  # the lower one of both
    is_settled: bool  # whether both looks saw one SM clock
    reasons: EventReason  # what held the clock down at either look

    @property
    def duration_s(self) -> float:
        """Time between the looks."""
        return self.stop_s - self.start_s

    @property
    def energy_j(self) -> float:
        """Energy between the looks."""
        return self.power_w * self.duration_s

    @property
    def engine_active(self) -> float:
        """Share of the time in which any kernel ran."""
        return self.activity.gr_engine_active or 0.0


class Observer:
    """Reads one device, window after window."""

    def __init__(self, device: Device) -> None:
        self._device = device
        capabilities = device.capabilities()
        self._has_samples = capabilities.has_power_samples
        self.counts_activity = capabilities.has_activity
        self._probe: ActivityProbe | None = None
        self._state = device.read_brief_state()
        self._looked_s = device.clock.now_s()
        if self.counts_activity:
            self._probe = device.activity()

    def read(self) -> Observation | None:
        """Return what was since the last read; ``None`` if that is too short ago to be known.

        Raises DeviceLostError if the device has gone.
        """
        start_s, now_s = self._looked_s, self._device.clock.now_s()
        if now_s - start_s < LEAST_S:
            return None
        try:
            activity = None if self._probe is None else self._probe.read()
        except MeasurementError:  # the driver wants more time between two reads
            return None
        before, after = self._state, self._device.read_brief_state()
        self._state, self._looked_s = after, now_s
        return Observation(
            start_s=start_s,
            stop_s=now_s,
            power_w=self._power_w(start_s, now_s),
            # Without counters of activity a driver tells whether a kernel ran.
            activity=activity or Activity(gr_engine_active=after.gpu_utilization),
            sm_clock_mhz=(before.sm_clock_mhz + after.sm_clock_mhz) / 2,
            least_clock_mhz=min(before.sm_clock_mhz, after.sm_clock_mhz),
            is_settled=abs(before.sm_clock_mhz - after.sm_clock_mhz) <= CLOCK_TOLERANCE_MHZ,
            reasons=before.event_reasons | after.event_reasons,
        )

    def _power_w(self, start_s: float, stop_s: float) -> float:
        """Return the mean of the driver's own samples, or of one reading where it holds none."""
        if self._has_samples:
            samples = self._device.read_power_samples()
            first, after = np.searchsorted(samples.t_s, (start_s, stop_s), side="right")
            if first < after:
                return float(samples.power_w[first:after].mean())
        return self._device.read_power_w()


JUDGED_S, SLOWEST_S = 20.0, 1.0
"""Over how long the cost is judged, and the longest time between looks. A phase that is new costs a
tenth of a second of a core once, which is no reason to look less often from then on."""
_ROOM = 0.8
"""Share of the budget within which looks twice as frequent must stay to be taken again."""


class Looking:
    """Keeps the cost of looking every ``period_s`` within its budget, a share of one core."""

    def __init__(self, period_s: float, budget: float, now_s: float) -> None:
        self.period_s = period_s
        self.note = ""
        """Why looks are taken less often than asked for; empty if they are not."""
        self._least_s = period_s
        self._budget = budget
        self._since_s = now_s
        self._cpu_s = 0.0
        self._is_new = True

    def bill(self, cpu_s: float, now_s: float) -> bool:
        """Take note of what a look cost; return whether the period is another from now on."""
        self._cpu_s += cpu_s
        passed_s = now_s - self._since_s
        if passed_s < JUDGED_S:
            return False
        share, is_new = self._cpu_s / passed_s, self._is_new
        self._cpu_s, self._since_s, self._is_new = 0.0, now_s, False
        if is_new:  # first calls cost more than all later ones
            return False
        if share > self._budget and 2 * self.period_s <= SLOWEST_S:
            self.period_s *= 2
            self.note = (
                f"Looking took {100 * share:.1f} % of a core, so that looks are taken every "
                f"{self.period_s:g} s, and a phase is recognised that much later."
            )
            return True
        if self.period_s > self._least_s and 2 * share <= _ROOM * self._budget:
            self.period_s, self.note = self.period_s / 2, ""
            return True
        return False


HORIZON_S, UNKNOWN_SHARE = 30.0, 0.5
_LONG_ENOUGH = 0.8


class Steadiness:
    """Remembers which of the last looks belong to a phase."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, bool]] = deque()
        self._num_unknown = 0

    def add(self, at_s: float, *, is_known: bool) -> None:
        """Take note of a look."""
        self._looks.append((at_s, is_known))
        self._num_unknown += not is_known
        while self._looks[0][0] < at_s - HORIZON_S:
            self._num_unknown -= not self._looks.popleft()[1]

    @property
    def is_unsteady(self) -> bool:
        """Whether most of the last half minute belongs to no phase."""
        if not self._looks or self._looks[-1][0] - self._looks[0][0] < _LONG_ENOUGH * HORIZON_S:
            return False
        return self._num_unknown > UNKNOWN_SHARE * len(self._looks)


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
