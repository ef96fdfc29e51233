"""By how much a trial is expected to improve on the best, hypothesis by hypothesis.

The mixture of all by its mean and covariance would say that a place at which an unlikely hypothesis
expects much is no better than any other (expected improvement after Jones, Schonlau, Welch,
"Efficient Global Optimization of Expensive Black-Box Functions", Journal of Global Optimization 13,
1998).

How low a cost the model would point to after one more trial.

The knowledge gradient (Frazier, Powell, Dayanik, "The Knowledge-Gradient Policy for Correlated
Normal Beliefs", INFORMS Journal on Computing 2009): a trial is worth what it changes about the
choice, wherever it is made; expected improvement sees only what the trial itself may show.

What a trial would tell is found from draws of what is unknown, each with its readings and costs: a
regression of costs on readings says what costs are expected once those are read (Strong, Oakley,
Brennan, "Estimating Multiparameter Partial Expected Value of Perfect Information from a
Probabilistic Sensitivity Analysis Sample", Medical Decision Making 2014). A law that is made linear
at its most likely parameters does not do: it has a ridge of voltage and a knee of memory, whose
slopes are those of one side, and probes that went by them were put onto the ridge itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular  # type: ignore[import-untyped]
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

from joulelab.searching.model.belief import Belief
from joulelab.searching.model.covariances import Seen
from joulelab.searching.model.forecast import Forecast
from joulelab.searching.model.law import Rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

MATTERS = 0.01
"""Relative improvement that matters."""
_MOST = 1000  # configurations that are looked at more closely, about
LOST = 1e3  # finite logarithm of a cost that is infinite
_FURTHEST, _MOST_DRAWN, _NUM_DRAWS = 3.0, 150, 400
"""What is drawn together: at most so many configurations that are less than so many standard
deviations from an improvement that matters."""


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
    """What trials are expected to improve on the best; shape ``(n,)``.

    ``expected`` is the mean logarithm, where it is none counted as 0; ``chance`` the probability of
    improving by more than what matters.
    """

    expected: Array
    chance: Array


class Improvements:
    """By how much configurations are expected to improve on one, while trials go out one by one.

    What is out counts as known in how far it narrows the beliefs. Most is worked out once. The one
    is at the place ``best`` of the forecast.
    """

    def __init__(self, forecast: Forecast, best: int, places: Index) -> None:
        self.forecast, self.best, self.places = forecast, best, places
        costs = forecast.costs(np.array([best, *places]))
        log_cost = np.minimum(forecast.log_cost[places], LOST)
        ahead = forecast.log_cost[best] - log_cost
        self._ahead = ahead + costs.apart[:, :1] - costs.apart[:, 1:]
        self._parts = [
            (weight, _Costs(belief, seen, forecast))
            for (weight, belief), seen in zip(forecast.belief.parts, costs.seen, strict=True)
        ]

    def after(self, out: Sequence[int]) -> Improvement:
        """Return what is expected once trials at ``out`` are known; they only grow in number."""
        expected, chance = np.zeros((2, len(self.places)))
        for ahead, (weight, costs) in zip(self._ahead, self._parts, strict=True):
            variance = costs.variance_after(out) + self.forecast.own_variance[self.places]
            deviation = np.maximum(np.sqrt(variance), 1e-9)
            expected += weight * mean_above(ahead, deviation)
            chance += weight * ndtr((ahead - MATTERS) / deviation)
        return Improvement(expected=expected, chance=chance)

    def chance_of_any(self, out: Sequence[int], feasible: Array) -> float:
        """Return the probability that any improves by more than what matters.

        With the rest of the probability, the regret of ending here is less than what matters. What
        one of two neighbours may cost, the other may as well: they are drawn together. ``feasible``
        is each one's probability of keeping to the constraints.
        """
        found, normals = 0.0, np.random.default_rng(0).standard_normal((_NUM_DRAWS, _MOST_DRAWN))
        for ahead, (weight, costs) in zip(self._ahead, self._parts, strict=True):
            deviation = np.maximum(np.sqrt(costs.variance_after(out)), 1e-9)
            away = np.where(feasible > 0.0, (ahead - MATTERS) / deviation, -np.inf)
            near = np.argsort(-away)[:_MOST_DRAWN]
            near = near[away[near] > -_FURTHEST]
            if len(near):
                drawn = ahead[near] + costs.drawn(near, normals[:, : len(near)])
                is_allowed = normals[:, ::-1][:, : len(near)] < ndtri(feasible[near])
                found += weight * float(np.mean((is_allowed & (drawn > MATTERS)).any(axis=1)))
        return found


class _Costs:
    """Costs, first that which others are compared with, as one hypothesis sees them.

    And how they vary with readings of what is out.
    """

    def __init__(self, belief: Belief, costs: Seen, forecast: Forecast) -> None:
        self._belief, self._costs, self._forecast = belief, costs, forecast
        own = belief.variance(costs, costs)
        with_first = belief.covariance(costs, costs.at(np.zeros(1, dtype=np.intp)))[:, 0]
        self._own = own + own[0] - 2.0 * with_first
        self._num_known = 0

    def variance_after(self, out: Sequence[int]) -> Array:
        """Return the variance of each cost less the first, once ``out`` is known."""
        if len(out) > self._num_known:
            self._take(out[self._num_known :])
        return np.asarray(np.maximum(self._own[1:], 0.0))

    def drawn(self, near: Index, normals: Array) -> Array:
        """Return draws of the first cost less others of these numbers, around what is expected.

        ``normals`` are standard normal, of shape ``(draws, len(near))``.
        """
        own = self._costs.at(np.concatenate([[0], near + 1]))
        covariance = self._belief.covariance(own, own)
        covariance -= covariance[:1] + covariance[:, :1] - covariance[0, 0]
        variance, directions = np.linalg.eigh(covariance[1:, 1:])
        return np.asarray(normals @ (directions * np.sqrt(np.maximum(variance, 0.0))).T)

    def _take(self, places: Sequence[int]) -> None:
        """Let readings at more places be known."""
        rows = self._forecast.rows.at(np.array(places, dtype=np.intp))
        readings = self._belief.see_readings(rows)
        shown = self._belief.covariance(readings, readings)
        shown += self._forecast.noise * np.eye(len(shown))
        root = np.asarray(np.linalg.cholesky(shown), dtype=np.float64)
        across = self._belief.covariance(readings, self._costs)
        known = solve_triangular(root, across, lower=True)
        self._own -= np.sum((known - known[:, :1]) ** 2, axis=0)
        self._costs = self._costs.after(known)
        self._belief = self._belief.after(readings, root)
        self._num_known += len(places)


def mean_above(ahead: Array, deviation: Array) -> Array:
    """Return the mean of a normal quantity where it is above 0, and 0 where it is not."""
    z = ahead / deviation
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(ahead * ndtr(z) + deviation * density)


_REACH = 0.7  # how far from the choice is looked, in logarithms of clock or power limit
_GAP, _GROWTH, _GROWTH_LAWLESS = 0.03, 0.6, 0.2
"""Widest gap between neighbours that were measured: at the choice, and by the distance from it; the
last where the law is known to fail, so that a step may hide in any gap."""


def widest_gap(
    rows: Rows,
    choice: int,
    tried: NDArray[np.bool_],
    free: NDArray[np.bool_],
    *,
    is_lawless: bool = False,
) -> int | None:
    """Return a place in the middle of the widest gap beside the choice; ``None`` without any.

    It was not ``tried`` and is ``free`` to be. ``is_lawless`` says that the law of time and power
    is known to fail.
    """
    growth = _GROWTH_LAWLESS if is_lawless else _GROWTH
    found: list[tuple[float, int]] = []
    for axis, other in ((0, 1), (1, 0)):
        line = rows.cell == rows.cell[choice]
        line &= rows.place[:, other] == rows.place[choice, other]
        at = rows.place[:, axis] - rows.place[choice, axis]
        known = np.unique([-_REACH, *np.clip(at[line & tried], -_REACH, _REACH), _REACH])
        inside = np.flatnonzero(line & free & (np.abs(at) < _REACH))
        for low, high in pairwise(known):
            within = inside[(at[inside] > low) & (at[inside] < high)]
            wide = (high - low) / (_GAP + growth * min(abs(low), abs(high)))
            if len(within) and wide > 1.0:
                middle = np.argmin(np.abs(at[within] - (low + high) / 2))
                found.append((float(wide), int(within[middle])))
    return max(found)[1] if found else None


_MOST_OFF = 3.0
"""Standard deviations beyond which the regression takes readings for no further away."""


def lowest_after(forecast: Forecast, places: Index, among: Index, out: Sequence[int] = ()) -> Array:
    """Return the expected least cost, a logarithm, after a trial at each of ``places``, by place.

    These are places of ``among``, the configurations of one cell that can be chosen after it.
    Readings of trials that are ``out`` will be known as well; those of other cells are taken to
    tell nothing.
    """
    logs = forecast.belief.drawn(forecast.rows.at(among))
    cost = logs[:, :, 1] + forecast.time_exponent * logs[:, :, 0]
    number = {int(place): at for at, place in enumerate(among)}
    known = [number[place] for place in out if place in number]
    error = np.sqrt(forecast.noise) * _errors(1 + len(known), len(logs))
    fixed = [_terms(logs[:, at] + e) for at, e in zip(known, error[1:], strict=True)]
    ones = np.ones((len(logs), 1))
    found = []
    for place in places:
        design = np.hstack([ones, _terms(logs[:, number[int(place)]] + error[0]), *fixed])
        expected = design @ np.linalg.lstsq(design, cost, rcond=None)[0]
        found.append(float(expected.min(axis=1).mean()))
    return np.array(found)


def _terms(readings: Array) -> Array:
    """Return powers and products, up to the third, of time and power; shape ``(draws, 9)``."""
    scaled = (readings - readings.mean(axis=0)) / readings.std(axis=0)
    t, p = np.clip(scaled, -_MOST_OFF, _MOST_OFF).T
    return np.column_stack([t, p, t * t, t * p, p * p, t**3, t * t * p, t * p * p, p**3])


def _errors(num_trials: int, num_draws: int) -> Array:
    """Return errors of readings, in standard deviations; shape ``(trials, draws, 2)``."""
    return np.random.default_rng(0).standard_normal((num_trials, num_draws, 2))
