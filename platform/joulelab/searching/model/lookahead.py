"""How low a cost the model would point to after one more trial.

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

import numpy as np
from numpy.typing import NDArray

from joulelab.searching.model.forecast import Forecast

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FURTHEST = 3.0
"""Standard deviations beyond which the regression takes readings for no further away."""


def lowest_after(forecast: Forecast, places: Index, among: Index, out: Sequence[int] = ()) -> Array:
    """Return the expected least cost, a logarithm, after a trial at each of ``places``.

    Args:
        forecast: What is expected of every configuration.
        places: Where the trial may be, places of ``among``.
        among: What can be chosen after it: configurations of one cell.
        out: Where trials are out, whose readings will be known as well; those of other cells are
            taken to tell nothing.

    Returns:
        Shape ``(len(places),)``.
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
    t, p = np.clip(scaled, -_FURTHEST, _FURTHEST).T
    return np.column_stack([t, p, t * t, t * p, p * p, t**3, t * t * p, t * p * p, p**3])


def _errors(num_trials: int, num_draws: int) -> Array:
    """Return errors of readings, in standard deviations; shape ``(trials, draws, 2)``."""
    return np.random.default_rng(0).standard_normal((num_trials, num_draws, 2))
