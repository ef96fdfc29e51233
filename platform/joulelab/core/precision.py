"""How many windows a mean needs."""

from collections.abc import Sequence
from math import ceil, sqrt
from statistics import fmean

from joulelab.core.energy import EnergyWindow, total_u_j
from joulelab.core.statistics import mean_u, student_t

LEVEL = 0.95
_NORMAL_FACTOR = 1.96
_SURE_SHARE = 0.36
"""Of the variance that readings state they are sure to have so much: on recordings of H200s they
err by 0.6 to 1.3 times what they state, in the root mean square."""


def relative_half_width(windows: Sequence[EnergyWindow]) -> float:
    """Return the relative half-width of the 95 % confidence interval of energy per unit.

    The scatter between windows, at least one, by Student's t, or what the readings alone leave open
    if that is more; a single window has only the latter.
    """
    per_unit_j = [window.energy_j / window.work for window in windows]
    mean_j = fmean(per_unit_j)
    reading_u_j, scatter_u_j = mean_u_j(windows, per_unit_j)
    half_width_j = _NORMAL_FACTOR * reading_u_j
    if len(windows) > 1:
        half_width_j = max(half_width_j, student_t(LEVEL, len(windows)) * scatter_u_j)
    return half_width_j / mean_j if mean_j > 0 else float("inf")


def mean_u_j(windows: Sequence[EnergyWindow], per_unit_j: Sequence[float]) -> tuple[float, float]:
    """Return the standard uncertainty of mean energy per unit by the readings, and by the scatter.

    The scatter is that of ``per_unit_j``, the energy per unit of each window, without what readings
    at edges between adjoining windows add to it, which falls out of the mean; 0 for one window.
    """
    work = sum(window.work for window in windows)
    total_j2 = total_u_j(windows) ** 2
    lost_j2 = sum(window.energy_u_j**2 for window in windows) - total_j2
    scatter_j2 = mean_u(per_unit_j) ** 2 - _SURE_SHARE * lost_j2 / work**2
    return sqrt(total_j2) / work, sqrt(max(0.0, scatter_j2))


def more_windows(windows: Sequence[EnergyWindow], relative_ci: float) -> int:
    """Return how many more windows ``relative_ci`` is likely to need; 0 if it is reached.

    Never more than there are already, so that the guess is made anew as the scatter is known
    better.
    """
    missing = relative_half_width(windows) / relative_ci if relative_ci > 0 else float("inf")
    if missing <= 1:
        return 0
    wanted = ceil(len(windows) * min(missing, 2.0) ** 2)
    return min(max(1, wanted - len(windows)), len(windows))
