"""By how much the power of a board grows with its temperature: watched while it waits and cools."""

from math import hypot
from statistics import pvariance

import numpy as np

from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.statistics import line_slope_and_u
from joulelab.hardware.board_facts import Fact

COOLING = Procedure(
    idle_s=0.0, warmup_min_s=0.5, warmup_max_s=0.5, window_s=0.5, min_windows=50, limit_s=30.0
)
"""What power does while temperature falls, of a board that waits after a load: of an H200 five
kelvins in the first seconds. Under a load temperature and clock change at once, or neither does."""
_COOLING_DOWN = ("not_steady", "thermal_drift")
_LEAST_RANGE_C = 2.0
_SURE = 3.0
"""A slope of fewer standard uncertainties is not told from none."""


def leakage_of(record: Record) -> Fact:
    """Return how power changes with temperature over the windows of a board that cools down.

    That windows trend is what is looked for; anything else that is wrong with them is not.
    """
    name, found = "leakage_w_per_k", record.measurement
    wrong = [each for each in found.findings if each.reason not in _COOLING_DOWN]
    if wrong or not found.windows:
        return Fact(name=name, reason=reason_of(found))
    seen = [(look.at_s, look.state.temperature_c) for look in record.course.looks]
    known = [(at_s, celsius) for at_s, celsius in seen if celsius is not None]
    middles_s = [window.start_s + window.duration_s / 2 for window in found.windows]
    heat_c = np.interp(middles_s, *np.array(known).T) if known else np.zeros(1)
    range_c = float(np.ptp(heat_c))
    if range_c < _LEAST_RANGE_C:
        return Fact(
            name=name, reason=f"{range_c:.1f} kelvin of cooling, of {_LEAST_RANGE_C:g} at least"
        )
    power_w = [window.energy_j / window.duration_s for window in found.windows]
    slope, u = line_slope_and_u(heat_c, power_w)
    if slope < _SURE * u:
        return Fact(name=name, reason=f"{slope:.2g} ± {u:.1g} W per kelvin, which may be none")
    # Readings are of whole degrees, which flattens a slope over few of them; by how much is half
    # believed, as rounding is not quite random.
    flattened = 1 / 12 / pvariance(heat_c)
    slope /= 1 - flattened
    return Fact(name=name, value=float(slope), u=hypot(u, flattened / 2 * slope))


def reason_of(found: Measurement) -> str:
    """Return why a measurement is invalid, in words."""
    return "; ".join(f"{each.reason}: {each.detail}" for each in found.findings)
