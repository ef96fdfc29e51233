"""By how much a trial is expected to improve on the best, hypothesis by hypothesis.

The mixture of all by its mean and covariance would say that a place at which an unlikely hypothesis
expects much is no better than any other (expected improvement after Jones, Schonlau, Welch,
"Efficient Global Optimization of Expensive Black-Box Functions", Journal of Global Optimization 13,
1998).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular  # type: ignore[import-untyped]
from scipy.special import ndtr  # type: ignore[import-untyped]

from joulelab.searching.model.belief import Belief, Seen
from joulelab.searching.model.forecast import SIDES, Forecast
from joulelab.searching.model.rows import Rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

MATTERS = 0.01
"""Relative improvement that matters."""
_MOST = 1000
"""Configurations that are looked at more closely, about."""
_LOST = 1e3
"""Finite logarithm of a cost that is infinite."""


def promising(forecast: Forecast, free: NDArray[np.bool_]) -> Index:
    """Return the places of what may be the next: of each cell of many, what is expected cheapest.

    What is unknown of a cell, all its configurations share.
    """
    places = np.flatnonzero(free)
    if len(places) <= _MOST:
        return places
    order = places[np.argsort(forecast.log_cost[places], kind="stable")]
    order = order[np.argsort(forecast.rows.cell[order], kind="stable")]
    starts = np.flatnonzero(np.diff(forecast.rows.cell[order], prepend=-1))
    each = max(_MOST // len(starts), 1)
    return np.concatenate([of_cell[:each] for of_cell in np.split(order, starts[1:])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """What trials are expected to improve on the best.

    Attributes:
        expected: The mean logarithm of each, where it is none counted as 0; shape ``(n,)``.
        chance: Probability that each improves by more than what matters.
    """

    expected: Array
    chance: Array


def improvement(forecast: Forecast, places: Index, best: int, out: Sequence[int]) -> Improvement:
    """Return by how much configurations are expected to improve on ``best``.

    Args:
        forecast: What is expected of every configuration.
        places: Of the configurations.
        best: Place of what is to be improved on.
        out: Places whose trials are out: they count as known in how far they narrow the beliefs.
    """
    costs = forecast.costs(np.array([best, *places]))
    ahead = forecast.log_cost[best] - np.minimum(forecast.log_cost[places], _LOST)
    at = forecast.rows.at(np.array(out, dtype=np.intp))
    expected, chance = np.zeros((2, len(places)))
    parts = zip(forecast.belief.parts, costs.seen, costs.apart, strict=True)
    for (weight, belief), cost, apart in parts:
        variance = _variance(belief, cost, at, forecast.noise) + forecast.own_variance[places]
        mean, deviation = ahead + apart[0] - apart[1:], np.maximum(np.sqrt(variance), 1e-9)
        expected += weight * _mean_above(mean, deviation)
        chance += weight * ndtr((mean - MATTERS) / deviation)
    return Improvement(expected=expected, chance=chance)


def _variance(belief: Belief, cost: Seen, out: Rows, noise: float) -> Array:
    """Return the variance of each cost less the first, once ``out`` is known."""
    own, one = belief.variance(cost, cost), cost.at(np.zeros(1, dtype=np.intp))
    found = own + own[0] - 2.0 * belief.covariance(cost, one)[:, 0]
    if len(out.cell):
        known = _known_by(belief, cost, out, noise)
        found -= np.sum((known - known[:, :1]) ** 2, axis=0)
    return np.asarray(np.maximum(found[1:], 0.0))


def _known_by(belief: Belief, cost: Seen, out: Rows, noise: float) -> Array:
    """Return what readings at ``out`` will tell, in whose terms these are one each."""
    readings = [belief.see(out, side) for side in SIDES]
    shown = np.block([[belief.covariance(a, b) for b in readings] for a in readings])
    across = np.vstack([belief.covariance(each, cost) for each in readings])
    root = np.linalg.cholesky(shown + noise * np.eye(len(shown)))
    return np.asarray(solve_triangular(root, across, lower=True))


def _mean_above(ahead: Array, deviation: Array) -> Array:
    """Return the mean of a normal quantity where it is above 0, and 0 where it is not."""
    z = ahead / deviation
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(ahead * ndtr(z) + deviation * density)
