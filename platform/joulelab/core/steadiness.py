"""When a load has become steady, and whether windows still trend or a board has changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1
from statistics import fmean, stdev

import numpy as np

from joulelab.core.additive import Interval
from joulelab.core.statistics import line_slope, line_slope_and_u, student_quantile
from joulelab.core.trace import PowerTrace

MAX_TIME_CV = 0.02
"""Coefficient of variation of unit times below which a load is steady."""
MAX_POWER_STEP = 0.02
"""Relative step of mean power between two halves of the last seconds."""
MAX_TEMPERATURE_SLOPE_C_PER_S = 0.05
"""Half a degree in ten seconds."""
MAX_WINDOW_TREND = 0.02
"""Relative change of energy per unit over all windows that makes them unsteady."""
TREND_LEVEL = 0.05
"""Chance of taking scatter for a trend, where there is none."""

_BLOCKS = 10


def time_is_steady(units_s: Sequence[float]) -> bool:
    """Whether the times of successive units scatter little enough.

    Short units are first averaged in ten blocks, so that the jitter of a launch does not
    count as a trend of the load.
    """
    if len(units_s) < 3:
        return False
    blocks_s = [
        float(block.mean()) for block in np.array_split(units_s, min(_BLOCKS, len(units_s)))
    ]
    return stdev(blocks_s) <= MAX_TIME_CV * fmean(blocks_s)


def power_is_steady(trace: PowerTrace, start_s: float, stop_s: float) -> bool:
    """Whether mean power in both halves of an interval agrees within what its scatter allows.

    Returns:
        ``False`` also where the trace does not span the interval.
    """
    if not trace.spans(start_s, stop_s):
        return False
    middle_s = (start_s + stop_s) / 2
    halves_w = [
        trace.power_w[(trace.t_s >= begin_s) & (trace.t_s <= end_s)]
        for begin_s, end_s in ((start_s, middle_s), (middle_s, stop_s))
    ]
    if min(half_w.size for half_w in halves_w) < 2:
        return False
    early_w, late_w = (float(half_w.mean()) for half_w in halves_w)
    noise_w = float(np.sqrt(sum(half_w.var(ddof=1) / half_w.size for half_w in halves_w)))
    return abs(late_w - early_w) <= MAX_POWER_STEP * max(early_w, late_w) + 2 * noise_w


def temperature_is_steady(at_s: Sequence[float], temperature_c: Sequence[float]) -> bool:
    """Whether temperature has stopped moving; ``False`` for fewer than three readings."""
    if len(at_s) < 3:
        return False
    return bool(abs(line_slope(at_s, temperature_c)) < MAX_TEMPERATURE_SLOPE_C_PER_S)


def window_trend(per_unit_j: Sequence[float], per_unit_u_j: Sequence[float]) -> float | None:
    """Return the relative change of energy per unit from the first window to the last.

    Windows that scatter without direction, as those of a load do that waits for a busy host, are no
    trend: their scatter is in the uncertainty of their mean. They are in order, with standard
    uncertainties.

    Returns:
        The change along the least-squares line over the mean; ``None`` if it is within
        :data:`MAX_WINDOW_TREND`, if the uncertainties alone explain it (k = 3), or if the
        windows' scatter around the line does (two-sided t test at :data:`TREND_LEVEL`).
    """
    if len(per_unit_j) < 3:
        return None
    last = len(per_unit_j) - 1
    slope_j, slope_u_j = line_slope_and_u(range(last + 1), per_unit_j)
    change_j, mean_j = slope_j * last, fmean(per_unit_j)
    read_j = 3 * fmean(per_unit_u_j) * 2**0.5
    scattered_j = student_quantile(1 - TREND_LEVEL / 2, last - 1) * slope_u_j * last
    if abs(change_j) <= max(MAX_WINDOW_TREND * mean_j, read_j, scattered_j):
        return None
    return change_j / mean_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Trend of one board's sentinels."""

    board: str  # UUID of the board
    num: int  # number of sentinels
    span_s: float  # time from the first to the last, in seconds
    # Relative change over that time (0.01 is one percent), with its interval; None for fewer than
    # three sentinels, which show no trend.
    change: Interval | None

    def exceeds(self, limit: float) -> bool:
        """Whether the change is larger than ``limit`` and more than scatter."""
        change = self.change
        return change is not None and change.excludes(0.0) and abs(change.value) > limit


def fit_drift(
    board: str, times_s: Sequence[float], logarithms: Sequence[float], *, level: float = 0.95
) -> Drift:
    """Fit a line through the logarithms of a board's sentinels."""
    t, y = np.asarray(times_s, dtype=np.float64), np.asarray(logarithms, dtype=np.float64)
    num, span_s = len(t), float(np.ptp(t)) if len(t) else 0.0
    if num < 3 or span_s == 0:
        return Drift(board=board, num=num, span_s=span_s, change=None)
    slope, slope_u = line_slope_and_u(t, y)
    margin = student_quantile((1 + level) / 2, num - 2) * slope_u
    low, value, high = (expm1(span_s * s) for s in (slope - margin, slope, slope + margin))
    return Drift(
        board=board, num=num, span_s=span_s, change=Interval(value=value, low=low, high=high)
    )
