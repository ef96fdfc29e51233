"""Which configurations may be the best, those included that were never measured."""

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import AdditiveFit
from joulelab.core.comparison import best_set
from joulelab.core.configuration import Configuration
from joulelab.searching.model.forecast import Forecast
from joulelab.searching.space import SearchSpace
from joulelab.searching.standing import LEVEL

_REACH = 5.0
"""Beyond so many standard deviations behind the best, nothing is compared any closer."""


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
