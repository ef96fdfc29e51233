"""What a governor sees of a GPU: activity, power and clock, from one look to the next."""

from dataclasses import dataclass

from joulelab.core.device import Activity, DeviceState, EventReason
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
from joulelab.devices.base import ActivityProbe, Device
from joulelab.errors import MeasurementError

LEAST_S = 0.02
"""Over less than a power sample's length nothing is known of a window."""
CAPPED = EventReason.SW_POWER_CAP | EventReason.HW_POWER_BRAKE
HOT = EventReason.SW_THERMAL | EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN


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

        Raises:
            DeviceLostError: If the device has gone.
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
            activity=_coarse_activity(after) if activity is None else activity,
            sm_clock_mhz=(before.sm_clock_mhz + after.sm_clock_mhz) / 2,
            least_clock_mhz=min(before.sm_clock_mhz, after.sm_clock_mhz),
            is_settled=abs(before.sm_clock_mhz - after.sm_clock_mhz) <= CLOCK_TOLERANCE_MHZ,
            reasons=before.event_reasons | after.event_reasons,
        )

    def _power_w(self, start_s: float, stop_s: float) -> float:
        """Return the mean of the driver's own samples, or of one reading where it holds none."""
        if self._has_samples:
            samples = self._device.read_power_samples()
            within = (samples.t_s > start_s) & (samples.t_s <= stop_s)
            if within.any():
                return float(samples.power_w[within].mean())
        return self._device.read_power_w()


def _coarse_activity(state: DeviceState) -> Activity:
    """Return what a driver without counters of activity tells of it: whether a kernel ran."""
    return Activity(gr_engine_active=state.gpu_utilization)
