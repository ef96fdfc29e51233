"""How low a cost the model would point to after one more trial.

The knowledge gradient (Frazier, Powell, Dayanik, "The Knowledge-Gradient Policy for Correlated
Normal Beliefs", INFORMS Journal on Computing 2009): a trial is worth what it changes about the
choice, wherever it is made; expected improvement sees only what the trial itself may show.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, qmc  # type: ignore[import-untyped]

from joulelab.search.model.forecast import Forecast

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LOG2_READINGS = 6


def lowest_after(forecast: Forecast, places: Index, among: Index, covariance: Array) -> Array:
    """Return the expected least cost, a logarithm, after a trial at each of ``places``.

    Args:
        forecast: What is expected of every configuration.
        places: Where the trial may be.
        among: What can be chosen after it.
        covariance: Of what is unknown, trials that are out allowed for.

    Returns:
        Shape ``(len(places),)``.
    """
    cost, readings = forecast.log_cost[among], _readings()
    to_cost = forecast.slopes[among] @ covariance
    found = []
    for place in places:
        told = forecast.log_time_power[place]
        shown = told @ covariance @ told.T + forecast.noise * np.eye(len(told))
        moved = np.linalg.solve(np.linalg.cholesky(shown), told @ to_cost.T).T
        found.append(float(np.mean(np.min(cost[:, None] + moved @ readings, axis=0))))
    return np.array(found)


@cache
def _readings() -> Array:
    """Return what a trial may show of time and power, in standard deviations; shape ``(2, n)``."""
    points = norm.ppf(qmc.Sobol(2, seed=0).random_base2(_LOG2_READINGS))
    return np.concatenate([points, -points]).T
