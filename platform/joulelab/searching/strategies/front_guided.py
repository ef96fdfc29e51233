"""Find the best, then the trade-offs of energy, time and quality around it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from joulelab.searching.front import expected_growth, front_places
from joulelab.searching.model.forecast import Forecast
from joulelab.searching.strategies.model_guided import ModelGuided

Array = NDArray[np.float64]

_MARGIN = 0.1
"""By how much the point beyond which nothing counts lies past the front, over its range."""
_LEAST_RANGES = np.array([0.05, 0.05, 0.0])
"""Logarithms of time, energy and quality: a front that spans less of them is not stretched."""
_GROWN = 2e-4
"""Expected growth at which the front counts as found, over the volume between its ends."""
_NUM_LEVELS = 64
"""Steps in which quality counts, over its range."""
_POWER_AND_TIME = np.array([[1.0, 0.0], [1.0, 1.0]])
"""Makes logarithms of time and energy of those of time and power."""


class FrontGuided(ModelGuided):
    """Model-guided search for the best, and then for the front of energy, time and quality.

    Once nothing is expected to cost less than the best, it measures what is expected to add most
    to the hypervolume that the front dominates. Quantities are logarithms over their ranges on
    the expected front, so that each counts alike.

    Args:
        problem: What is searched for.
        seed: Without effect: nothing here is random.
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
        u = _deviations(forecast, self._out) / scale[:2]
        reference = np.full(3, 1.0 + _MARGIN)
        growth = expected_growth(costs[:, :2], u, costs[:, 2], front, reference)
        return growth * forecast.feasible


def _costs(forecast: Forecast) -> Array:
    """Return logarithms of time and energy, and what is lost of the quality; shape ``(n, 3)``."""
    return np.column_stack([forecast.logs @ _POWER_AND_TIME.T, -forecast.log_quality])


def _deviations(forecast: Forecast, out: Sequence[int]) -> Array:
    """Return the standard deviations of the logarithms of time and energy; shape ``(n, 2)``."""
    return np.column_stack([forecast.spread(tuple(each), out) for each in _POWER_AND_TIME])
