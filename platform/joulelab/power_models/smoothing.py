"""Costs of a measured sweep without the scatter of its points, and what that scatter alone costs.

The least of many scattered costs is lower than any of them is: a choice that could not be better
seems to be worse than the luckiest point (the winner's curse). So a choice is compared with the
luckiest point and with the smoothed sweep, and what the luck is worth can be told by replaying it.
"""

from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.decision import Goal, Sweep
from joulelab.power_models.members.scatter import off_neighbours
from joulelab.power_models.runs import Array

_DEGREES = range(2, 7)
_SPARE_POINTS = 3
"""So many points more than a polynomial's degree are required to smooth by it."""
_HUBER = 1.345
"""Errors beyond this many standard deviations count less, in proportion."""
_ROUNDS = 20


def smoothed_cost(measured: Sweep, goal: Goal) -> Array:
    """Return the cost of each row on a smooth curve, infinite where a row is not usable.

    The logarithm of the cost is a polynomial in that of the clock, fitted so that outliers count
    less (Huber); its degree, 2 to 6, is the one that foretells left-out points best. Fewer than
    five usable rows are returned as they are.
    """
    cost = measured.cost(goal)
    known = np.flatnonzero(np.isfinite(cost))
    degrees = [degree for degree in _DEGREES if degree + _SPARE_POINTS <= len(known)]
    if degrees:
        height = np.log(measured.sm_clock_mhz[known])
        height = (height - height.mean()) / (height.std() + 1e-12)
        fits = [_fitted(height, np.log(cost[known]), degree) for degree in degrees]
        cost[known] = np.exp(min(fits, key=lambda fit: fit[0])[1])
    return cost


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
        mean: Expected regret, against the luckiest point, of choices by the true curves.
        lower: Fifth percentile of what a study of these applications may find for it.
        upper: 95th percentile.
    """

    mean: float
    lower: float
    upper: float


def luck_of(sweeps: list[Sweep], goal: Goal, *, replays: int = 1000, seed: int = 0) -> LuckScores:
    """Replay the scatter of sweeps on their smoothed curves.

    Scatter is drawn from how far the points of each sweep are from their neighbours, so that what
    the smooth curve does not follow is no part of it. Redrawn, extremes are rarer than they are:
    the luck of some fifty points is told a fifth too low.

    Raises:
        ConfigError: If no sweep has five usable rows.
    """
    random = np.random.default_rng(seed)
    regrets = []
    for sweep in sweeps:
        cost, smooth = sweep.cost(goal), smoothed_cost(sweep, goal)
        order = np.argsort(sweep.sm_clock_mhz)
        order = order[np.isfinite(cost[order])]
        if len(order) < min(_DEGREES) + _SPARE_POINTS:
            continue
        scatter = off_neighbours(np.log(cost[order]))
        drawn = random.choice(scatter, (replays, len(order)))
        replayed = np.log(smooth[order]) + drawn - scatter.mean()
        chosen = replayed[:, int(np.argmin(smooth[order]))]
        regrets.append(np.expm1(chosen - replayed.min(axis=1)))
    if not regrets:
        raise ConfigError("At least one sweep with five usable clocks is required, got none.")
    means = np.mean(regrets, axis=0)
    lower, upper = np.percentile(means, (5, 95))
    return LuckScores(mean=float(means.mean()), lower=float(lower), upper=float(upper))


def _fitted(height: Array, logs: Array, degree: int) -> tuple[float, Array]:
    """Return the mean absolute error for left-out points, and the fitted values."""
    design = np.vander(height, degree + 1)
    weight, fitted, leverage = np.ones(len(logs)), logs, np.zeros(len(logs))
    for _ in range(_ROUNDS):
        basis, _ = np.linalg.qr(design * np.sqrt(weight)[:, None])
        fitted = basis @ (basis.T @ (logs * np.sqrt(weight))) / np.sqrt(weight)
        leverage = np.minimum(np.sum(basis**2, axis=1), 1.0 - 1e-9)
        error = np.abs(logs - fitted)
        spread = 1.4826 * np.median(error) + 1e-12
        weight = 1.0 / np.maximum(1.0, error / (_HUBER * spread))
    return float(np.mean(np.abs(logs - fitted) / (1.0 - leverage))), fitted
