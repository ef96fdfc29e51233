"""What the power cap holds, and up to which clock it leaves all boards of a sweep free."""

from collections.abc import Sequence
from math import inf

from joulelab.core.measurement import Measurement
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
from joulelab.core.validity import MAX_THROTTLE_SHARE

BEYOND = "The power cap holds other boards below this clock, so that there is no mean over boards."


def is_held(measurement: Measurement) -> bool:
    """Whether the power cap, and not the request, set the clock."""
    return (measurement.observed.power_cap_share or 0.0) > MAX_THROTTLE_SHARE


def held_by_all(measurements: Sequence[Measurement]) -> list[bool]:
    """Return which of the measurements of a program are of a clock that all boards can hold.

    A board whose default the power cap holds can hold no clock above where it was seen then. What a
    board measured validly, it held itself.
    """
    seen_mhz: dict[str, float] = {}
    for m in measurements:
        if m.configuration.point.is_default and is_held(m):
            uuid, clock_mhz = m.device.uuid, m.observed.sm_clock_mhz or inf
            seen_mhz[uuid] = max(clock_mhz, seen_mhz.get(uuid, 0.0))
    lowest = sorted((clock_mhz, uuid) for uuid, clock_mhz in seen_mhz.items())[:2]
    found = []
    for m in measurements:
        limits_mhz = [clock_mhz for clock_mhz, uuid in lowest if uuid != m.device.uuid]
        highest_mhz = limits_mhz[0] + CLOCK_TOLERANCE_MHZ if limits_mhz else inf
        point = m.configuration.point
        is_below = (point.sm_clock_mhz or 0.0) <= highest_mhz
        found.append(is_below or point.power_limit_w is not None)
    return found
