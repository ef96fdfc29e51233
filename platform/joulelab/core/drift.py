"""Whether a board changed while it was measured: the trend of its sentinels."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1

import numpy as np

from joulelab.core.additive import Interval
from joulelab.core.statistics import line_slope_and_u, student_quantile


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
