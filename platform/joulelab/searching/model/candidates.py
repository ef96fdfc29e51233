"""Which configurations may be the best, measured or not, and which clocks the power cap holds."""

from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import AdditiveFit
from joulelab.core.comparison import best_set
from joulelab.core.configuration import Configuration
from joulelab.searching.evidence import Evidence
from joulelab.searching.model.forecast import Forecast
from joulelab.searching.space import SearchSpace
from joulelab.searching.standing import LEVEL
from joulelab.workloads import WORKLOADS

PROBE_RATIO = 0.7
"""Clock over the highest at which a cell is first probed that is asked for before anything is
known: about where voltage starts to rise. No cap is expected to hold there or below."""


class Caps:
    """What the power cap holds, by evidence, which may grow.

    Each configuration has the number of its ``cell`` and the ``ratio`` of its clock over the
    highest; shapes ``(n,)``.
    """

    def __init__(
        self, evidence: Evidence, cell: NDArray[np.intp], ratio: NDArray[np.float64]
    ) -> None:
        self._evidence, self._cell, self._ratio = evidence, cell, ratio
        points = [each.point for each in evidence.problem.space]
        self._clock_mhz = np.array([point.sm_clock_mhz or 0 for point in points])
        self._limit_w = np.array([point.power_limit_w or inf for point in points])

    @cached_property
    def _has_phases(self) -> bool:
        space = self._evidence.problem.space
        return len(WORKLOADS[space.workload].from_knobs(dict(space.baseline.knobs)).phases) > 1

    def identical(self) -> NDArray[np.bool_]:
        """Return the clocks that a cap holds as it held one of their cell, the baseline apart."""
        found = np.zeros(len(self._cell), dtype=bool)
        for outcome in self._evidence.outcomes:
            if outcome.capped:
                at = self._evidence.problem.space.index(outcome.candidate)
                held_mhz = inf if outcome.held_mhz is None else outcome.held_mhz
                same = (self._cell == self._cell[at]) & (self._limit_w == self._limit_w[at])
                above = (self._ratio >= self._ratio[at]) | (self._clock_mhz > held_mhz)
                found |= same & above
        found[0] = False
        return found

    def open_clocks(self) -> NDArray[np.bool_]:
        """Return the clocks of which nothing tells whether the power cap holds them.

        It may hold one of several phases, of which their mean power does not tell. Those clocks are
        above what was measured of their cell; its driver's clock, and a trial that was held, tell
        of all.
        """
        if not self._has_phases:
            return np.zeros(len(self._cell), dtype=bool)
        known, space = np.full(int(self._cell.max()) + 1, PROBE_RATIO), self._evidence.problem.space
        for outcome in self._evidence.outcomes:
            at, is_valid = space.index(outcome.candidate), outcome.figures is not None
            if outcome.held_mhz is not None or (is_valid and outcome.candidate.point.is_default):
                known[self._cell[at]] = inf
            elif is_valid:
                known[self._cell[at]] = max(known[self._cell[at]], self._ratio[at])
        return np.asarray(self._ratio > known[self._cell])


_REACH = 5.0  # beyond so many standard deviations behind the best, nothing is compared any closer


def expected_equals(
    forecast: Forecast, space: SearchSpace, *, confidence: float
) -> tuple[Configuration, ...]:
    """Return the configurations that the model finds indistinguishable from the best, it first.

    A sweep that measures few clocks seldom measures the best one: this set is what holds it, with a
    probability of :data:`LEVEL` were the model right. The best keeps to the constraints with a
    probability of ``confidence``; what does so with less than the rest of it is left out.
    """
    cost = np.where(forecast.feasible >= confidence, forecast.log_cost, np.inf)
    best = int(np.argmin(cost))
    if not np.isfinite(cost[best]):
        return ()
    spread = forecast.deviation(best) + np.sqrt(2 * forecast.unexplained)
    spread += np.sqrt(forecast.quality_variance + forecast.quality_variance[best])
    near = forecast.log_cost - forecast.log_cost[best] <= _REACH * spread
    near &= forecast.feasible > 1.0 - confidence
    places = np.flatnonzero(near)
    found = best_set(_as_fit(forecast, places), level=LEVEL)
    return tuple(space[int(name)] for name in found.members)


def _as_fit(forecast: Forecast, places: NDArray[np.intp]) -> AdditiveFit:
    cost = forecast.costs(places)
    covariance = forecast.belief.covariance(cost, cost)
    covariance += np.diag(forecast.own_variance[places] + forecast.unexplained)
    quality_u, outputs = np.sqrt(forecast.quality_variance[places]), forecast.outputs[places]
    covariance += np.outer(quality_u, quality_u) * (outputs[:, None] == outputs[None, :])
    return AdditiveFit(
        configurations=tuple(str(place) for place in places),
        estimate=forecast.log_cost[places],
        scatter=np.zeros_like(covariance),
        stated=covariance,
        dof=0,
        residual_sd=None,
    )
