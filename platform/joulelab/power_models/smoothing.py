"""Costs of a measured sweep without the scatter of its points, and what that scatter alone costs.

The least of many scattered costs is lower than any of them is: a choice that could not be better
seems to be worse than the luckiest point (the winner's curse). So a choice is compared with the
luckiest point and with the smoothed sweep, and what the luck is worth can be told by replaying it.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from statsmodels.nonparametric.smoothers_lowess import lowess

from joulelab.errors import ConfigError
from joulelab.power_models.decision import Goal, Sweep
from joulelab.power_models.members.scatter import off_neighbours
from joulelab.power_models.runs import Array

_SPANS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Shares of a sweep's points that a line is fitted to, around each point."""
_FEWEST = 5
"""Usable points from which on a sweep is smoothed."""
_NEAREST = 9
"""Points that a line is fitted to, if there are as many: enough to outvote one that is far off."""
_FOLDS = 8
"""Parts of a sweep that are foretold from the others, to find the span."""
_ROUNDS = 3
"""How often points far off their line are given less weight."""


def smoothed_cost(measured: Sweep, goal: Goal) -> Array:
    """Return the cost of each row on a smooth curve, infinite where a row is not usable.

    The logarithm of the cost is smoothed over that of the clock by lines fitted around each point,
    to which outliers count less (LOWESS, Cleveland 1979); the span is the one that foretells
    left-out points best. Fewer than five usable rows are returned as they are.
    """
    cost = measured.cost(goal)
    known = np.flatnonzero(np.isfinite(cost))
    cost[known] = np.exp(smoothed_logs(measured.sm_clock_mhz[known], np.log(cost[known])))
    return cost


def smoothed_logs(clocks_mhz: Array, logs: Array) -> Array:
    """Return the logarithm of a quantity at each clock without its scatter, likewise.

    Args:
        clocks_mhz: Clocks, in any order; shape ``(n,)``.
        logs: Logarithm of what was measured there; shape ``(n,)``.
    """
    if len(logs) < _FEWEST:
        return logs
    return _smooth(tuple(np.log(clocks_mhz)), tuple(logs)).copy()


def smoothed_best_mhz(measured: Sweep, goal: Goal) -> float:
    """Return the best clock of the measured sweep itself once its scatter is smoothed."""
    return float(measured.sm_clock_mhz[int(np.argmin(smoothed_cost(measured, goal)))])


def smoothed_regret(measured: Sweep, chosen_mhz: float, goal: Goal) -> float:
    """Return how much more the chosen clock costs than the best one on the smoothed sweep."""
    cost = smoothed_cost(measured, goal)
    distance = np.where(np.isfinite(cost), np.abs(measured.sm_clock_mhz - chosen_mhz), np.inf)
    return float(cost[int(np.argmin(distance))] / cost.min() - 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LuckScores:
    """What scatter makes of the best possible choices; relative, means over applications.

    Attributes:
        mean: Expected regret of choices by the true curves.
        lower: Fifth percentile of what a study of these applications may find for it.
        upper: 95th percentile.
    """

    mean: float
    lower: float
    upper: float


def luck_of(
    sweeps: list[Sweep],
    goal: Goal,
    *,
    replays: int = 1000,
    seed: int = 0,
    is_smoothed: bool = False,
) -> LuckScores:
    """Replay the scatter of sweeps on their smoothed curves, and score the best clock of these.

    Scatter is drawn from how far the points of each sweep are from their neighbours, so that what
    the smooth curve does not follow is no part of it. Redrawn, extremes are rarer than they are:
    the luck of some fifty points is told a fifth too low.

    Args:
        sweeps: Measured ones; those with fewer than five usable rows are left out.
        goal: What is minimised.
        replays: How often.
        seed: Of the scatter.
        is_smoothed: Whether choices are scored on each replay smoothed again, which takes 0.1 s a
            sweep and replay, rather than against its luckiest point.

    Raises:
        ConfigError: If no sweep has five usable rows.
    """
    random = np.random.default_rng(seed)
    regrets = []
    for sweep in sweeps:
        cost, smooth = sweep.cost(goal), smoothed_cost(sweep, goal)
        order = np.argsort(sweep.sm_clock_mhz)
        order = order[np.isfinite(cost[order])]
        if len(order) < _FEWEST:
            continue
        scatter = off_neighbours(np.log(cost[order]))
        drawn = random.choice(scatter, (replays, len(order)))
        replayed = np.log(smooth[order]) + drawn - scatter.mean()
        if is_smoothed:
            clocks = sweep.sm_clock_mhz[order]
            replayed = np.array([smoothed_logs(clocks, each) for each in replayed])
        chosen = replayed[:, int(np.argmin(smooth[order]))]
        regrets.append(np.expm1(chosen - replayed.min(axis=1)))
    if not regrets:
        raise ConfigError("At least one sweep with five usable clocks is required, got none.")
    means = np.mean(regrets, axis=0)
    lower, upper = np.percentile(means, (5, 95))
    return LuckScores(mean=float(means.mean()), lower=float(lower), upper=float(upper))


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
    smoothed: Array = lowess(logs, height, frac=span, it=_ROUNDS, xvals=at)
    if not np.isfinite(smoothed).all():  # points without any scatter have no outliers either
        smoothed = lowess(logs, height, frac=span, it=0, xvals=at)
    return smoothed
