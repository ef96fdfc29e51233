"""Measured sweeps without their scatter, for those with many clocks.

A line is fitted to nine points at least: on a sweep of a dozen clocks a kink is smoothed away (of a
regret of 62 % at nine clocks it left 29 %, of 109 % it left 51), so that sweeps with fewer than
thirty stay as they were measured, luck included.
"""

from functools import lru_cache

import numpy as np

from joulelab.power_models.decision import Sweep
from joulelab.power_models.runs import Array

_SPANS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Shares of a sweep's points that a line is fitted to, around each point."""
FEWEST = 5
"""Usable points from which on the luck of a sweep is told."""
_DENSE = 30
"""Usable points from which on a sweep is smoothed."""
_NEAREST = 9
"""Points that a line is fitted to, if there are as many: enough to outvote one that is far off."""
_FOLDS = 8
"""Parts of a sweep that are foretold from the others, to find the span."""
_ROUNDS = 3
"""How often points far off their line are given less weight."""


def smoothed_cost(measured: Sweep, objective: str) -> Array:
    """Return the cost of each row on a smooth curve, infinite where a row is not usable.

    The logarithm of the cost is smoothed over that of the clock by lines fitted around each point,
    to which outliers count less (LOWESS, Cleveland 1979); the span is the one that foretells
    left-out points best. Fewer than thirty usable rows are returned as they are.
    """
    cost = measured.cost(objective)
    known = np.flatnonzero(np.isfinite(cost))
    cost[known] = np.exp(smoothed_logs(measured.sm_clock_mhz[known], np.log(cost[known])))
    return cost


def smoothed_logs(clocks_mhz: Array, logs: Array) -> Array:
    """Return logarithms of what was measured at clocks, in any order, without their scatter."""
    if len(logs) < _DENSE:
        return logs
    return _smooth(tuple(np.log(clocks_mhz)), tuple(logs)).copy()


def smoothed_best_mhz(measured: Sweep, objective: str) -> float:
    """Return the best clock of the measured sweep itself once its scatter is smoothed."""
    return float(measured.sm_clock_mhz[int(np.argmin(smoothed_cost(measured, objective)))])


def smoothed_regret(measured: Sweep, chosen_mhz: float, objective: str) -> float:
    """Return how much more the chosen clock costs than the best one on the smoothed sweep."""
    cost = smoothed_cost(measured, objective)
    distance = np.where(np.isfinite(cost), np.abs(measured.sm_clock_mhz - chosen_mhz), np.inf)
    return float(cost[int(np.argmin(distance))] / cost.min() - 1.0)


@lru_cache(maxsize=1024)  # every model is compared with the same sweeps
def _smooth(height: tuple[float, ...], logs: tuple[float, ...]) -> Array:
    x, y = np.array(height), np.array(logs)
    spans = [span for span in _SPANS if span * len(x) >= _NEAREST] or [1.0]
    return _lowess(x, y, min(spans, key=lambda span: _left_out_error(x, y, span)), at=x)


def _left_out_error(height: Array, logs: Array, span: float) -> float:
    """Return the sum of absolute errors for points that every eighth time are left out."""
    fold = np.argsort(np.argsort(height)) % _FOLDS
    error = 0.0
    for k in range(_FOLDS):
        kept, out = fold != k, fold == k
        error += float(
            np.abs(logs[out] - _lowess(height[kept], logs[kept], span, height[out])).sum()
        )
    return error


def _lowess(height: Array, logs: Array, span: float, at: Array) -> Array:
    from statsmodels.nonparametric.smoothers_lowess import lowess

    smoothed: Array = lowess(logs, height, frac=span, it=_ROUNDS, xvals=at)
    if not np.isfinite(smoothed).all():  # points without any scatter have no outliers either
        smoothed = lowess(logs, height, frac=span, it=0, xvals=at)
    return smoothed
