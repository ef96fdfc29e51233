"""Find the best, then the trade-offs of energy, time and quality around it.

By how much a configuration is expected to push out the front of energy, time and quality.

What a front dominates is measured by its hypervolume. The expected improvement of it has a closed
form for two independent normal quantities: a sum over the strips between the points of the front
(Emmerich, Deutz, Klinkenberg, "Hypervolume-based expected improvement: Monotonicity properties and
exact computation", IEEE Congress on Evolutionary Computation 2011; here each strip is a product of
two partial moments). The third one, what is lost of the quality, has few values, which are known:
the volume is a stack of slabs between them, in each of which those points count that lose no more.
"""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from joulelab.searching.model.forecast import Forecast
from joulelab.searching.model.improvement import mean_above
from joulelab.searching.strategies.model_guided import ModelGuided

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LEAST_U = 1e-12


def expected_growth(mean: Array, u: Array, loss: Array, front: Array, reference: Array) -> Array:
    """Return by how much each candidate is expected to add to the hypervolume of a front.

    At least 0. ``mean`` and ``u`` are two expected costs, lower is better, and their standard
    deviations, shape ``(n, 2)``; ``loss`` is the third cost, which is known, shape ``(n,)``. The
    ``front`` is dominated already, shape ``(m, 3)``, m may be 0; beyond ``reference``, shape
    ``(3,)``, nothing counts.
    """
    levels = np.unique(np.concatenate([loss, front[:, 2]]))
    levels = levels[levels < reference[2]]
    growth = np.zeros(len(mean))
    for level, above in zip(levels, [*levels[1:], reference[2]], strict=True):
        within = loss <= level
        lower = front[front[:, 2] <= level, :2]
        growth[within] += (above - level) * _area_growth(mean[within], u[within], lower, reference)
    return growth


def front_places(costs: Array) -> Index:
    """Return the places of what nothing beats in all three costs; shape of ``costs`` ``(n, 3)``."""
    found = [
        within[_stairs(costs[within, :2])]
        for level in np.unique(costs[:, 2])
        for within in (np.flatnonzero(costs[:, 2] <= level),)
    ]
    return np.unique(np.concatenate(found))


def _area_growth(mean: Array, u: Array, front: Array, reference: Array) -> Array:
    """Return by how much the area that is dominated is expected to grow."""
    inside = front[(front < reference[:2]).all(axis=1)]
    steps = inside[_stairs(inside)]
    rights = np.append(steps[:, 0], reference[0])
    tops = np.insert(steps[:, 1], 0, reference[1])
    spread = np.maximum(u, _LEAST_U)
    widths = np.diff(mean_above(rights - mean[:, :1], spread[:, :1]), axis=1, prepend=0.0)
    return np.asarray(np.sum(widths * mean_above(tops - mean[:, 1:], spread[:, 1:]), axis=1))


def _stairs(points: Array) -> Index:
    """Return the places of the points that no other beats in both, by the first cost."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    lowest = np.minimum.accumulate(points[order, 1])
    lower: Index = np.flatnonzero(np.diff(lowest, prepend=np.inf) < 0)
    return np.asarray(order[lower])


_MARGIN = 0.1
"""By how much the point beyond which nothing counts lies past the front, over its range."""
_LEAST_RANGES = np.array([0.05, 0.05, 0.0])
"""Logarithms of time, energy and quality: a front that spans less of them is not stretched."""
_GROWN = 2e-4
"""Expected growth at which the front counts as found, over the volume between its ends."""
_NUM_LEVELS = 64  # steps in which quality counts, over its range
_POWER_AND_TIME = np.array([[1.0, 0.0], [1.0, 1.0]])
"""Makes logarithms of time and energy of those of time and power."""


class FrontGuided(ModelGuided):
    """Model-guided search for the best, and then for the front of energy, time and quality.

    Once nothing is expected to cost less than the best, it measures what is expected to add most to
    the hypervolume that the front dominates. Quantities are logarithms over their ranges on the
    expected front, so that each counts alike. Nothing here is random.
    """

    @override
    def _next(self) -> int | None:
        place = super()._next()
        if place is not None or not self.evidence.measured:
            return place
        forecast = self.forecast()
        free = self._free() & ~forecast.is_capped & ~self._awaited(forecast)
        growth = np.where(free, self._growth(forecast), -1.0)
        best = int(np.argmax(growth))
        return best if growth[best] > _GROWN else None

    @override
    def _beside(self, forecast: Forecast, free: NDArray[np.bool_]) -> int | None:
        """Return nothing: the front is looked at on all sides of the best."""
        return None

    def _growth(self, forecast: Forecast) -> Array:
        """Return the expected growth of the front of what keeps to the constraints."""
        likely = forecast.feasible >= self.evidence.problem.confidence
        likely &= np.isfinite(forecast.log_quality)
        if not likely.any():
            return np.zeros(len(likely))
        costs = _costs(forecast)
        ends = costs[likely][front_places(costs[likely])]
        low, high = ends.min(axis=0), ends.max(axis=0)
        scale = np.maximum(high - low, _LEAST_RANGES)
        scale[2] = scale[2] or 1.0
        costs = (costs - low) / scale
        costs[:, 2] = np.round(costs[:, 2] * _NUM_LEVELS) / _NUM_LEVELS
        known = [self._space.index(each) for each in self.evidence.measured]
        front = costs[[place for place in (*known, *self._out) if likely[place]]].reshape(-1, 3)
        spreads = [forecast.spread(tuple(each), self._unseen) for each in _POWER_AND_TIME]
        u = np.column_stack(spreads) / scale[:2]
        reference = np.full(3, 1.0 + _MARGIN)
        growth = expected_growth(costs[:, :2], u, costs[:, 2], front, reference)
        return growth * forecast.feasible


def _costs(forecast: Forecast) -> Array:
    """Return logarithms of time and energy, and what is lost of the quality; shape ``(n, 3)``."""
    return np.column_stack([forecast.logs @ _POWER_AND_TIME.T, -forecast.log_quality])
