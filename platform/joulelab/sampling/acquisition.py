"""Find the ticks of an energy counter before anything is measured by them.

That takes some twenty reads, each of which keeps a core busy. Done once, while nothing is
measured, it costs the measured program nothing.
"""

from joulelab.devices.base import Device
from joulelab.sampling.meter import Meter
from joulelab.sampling.tick_tracker import TickTracker

_LOOK_S = 0.02
_AHEAD_S = 1.0
"""For so long ahead ticks are to be foreseen."""
_LIMIT_S = 4.0
"""A counter that shows no ticks for so long is left to the measurement, which says why."""


def find_ticks(device: Device, tracker: TickTracker) -> float:
    """Poll the counter of ``device`` until ``tracker`` foresees its ticks.

    Returns at once where they are known already, or there is no counter.

    Returns:
        CPU time that it took, in seconds.

    Raises:
        DeviceLostError: If the device has gone.
        MeasurementError: If the counter cannot be read.
    """
    clock = device.clock
    until_s = clock.now_s() + _LIMIT_S
    if tracker.is_settled or not device.capabilities().has_energy_counter:
        return 0.0
    meter = Meter(device, tracker=tracker)
    meter.start()
    try:
        while not _knows(tracker, clock.now_s()) and clock.now_s() < until_s:
            clock.sleep_s(_LOOK_S)
            meter.raise_if_failed()
    finally:
        meter.stop()
    return meter.cpu_s


def _knows(tracker: TickTracker, now_s: float) -> bool:
    return tracker.is_settled and tracker.is_fresh(now_s + _AHEAD_S)
