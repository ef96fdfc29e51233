"""What readings of an application show of the parameters of a law.

A law scaled as a whole at one clock is wrong at others: idle power does not grow with the load.
So readings move the parameters of their application. One is met; two or more scatter.

How much readings of an application scatter, a few of them cannot tell; how much those of others
did is known. So the scatter is one of theirs, the likelier the better it explains how far these
readings are from what was guessed (evidence by Laplace's approximation: MacKay 1992). Readings that
agree are followed closely. Those that disagree by more than the law allows are of an application
that scatters: next to one another, they would turn their scatter into a slope.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from joulelab.power_models.runs import Array

_READING_ERROR = 0.005
"""Relative standard error of a measured point, where nothing is known of its scatter."""
_LEAST_SCATTER = 0.002
_MOST_TRIED = 6

Law = Callable[[Array], Array]
"""What is expected of each reading, by how far the parameters are moved, in their doubts."""


class Fit(NamedTuple):
    """A law fitted to readings of one application.

    Attributes:
        moved: Parameters, as multiples of their doubts away from what is guessed.
        scatter: Relative standard deviation of one of its readings.
    """

    moved: Array
    scatter: float


def met(law: Law, values: Array, num_parameters: int) -> Array:
    """Return how parameters are moved so that the law meets ``values``, as little as that needs."""

    def misfit(moved: Array) -> Array:
        return np.concatenate([np.log(law(moved) / values) / _READING_ERROR, moved])

    return np.asarray(least_squares(misfit, np.zeros(num_parameters), max_nfev=50).x)


def fitted_to(
    law: Law, values: Array, num_parameters: int, *, scatters: Array, free_level: bool
) -> Fit:
    """Fit a law to two readings or more.

    Args:
        law: What is expected of each reading.
        values: The readings.
        num_parameters: Of the law.
        scatters: Relative scatters of single readings of other applications.
        free_level: Whether the readings are over one of them, which scatters as they do: then
            they show the shape and not the level.
    """
    tried, share = _tried(scatters)
    moved, evidence = np.zeros((len(tried), num_parameters)), np.log(share)
    for number, scatter in enumerate(tried):
        first = moved[max(number - 1, 0)]
        moved[number], found = _likeliest(law, values, first, float(scatter), free_level)
        evidence[number] += found
    likely = np.exp(evidence - evidence.max())
    likely /= likely.sum()
    return Fit(moved=likely @ moved, scatter=float(np.sqrt(likely @ tried**2)))


def _tried(scatters: Array) -> tuple[Array, Array]:
    """Return some scatters, descending, from the largest to the least, and each one's share."""
    known = np.sort(np.maximum(scatters, _LEAST_SCATTER))[::-1]
    if not len(known):
        return np.array([_READING_ERROR]), np.ones(1)
    steps = np.linspace(0, len(known) - 1, min(len(known), _MOST_TRIED)).round().astype(np.intp)
    share = np.ones(len(steps))
    share[[0, -1]] = 0.5 if len(known) > _MOST_TRIED else 1.0
    return known[steps], share / share.sum()


def _likeliest(
    law: Law, values: Array, first: Array, scatter: float, free_level: bool
) -> tuple[Array, float]:
    """Return the likeliest parameters if readings scatter so, and the log of the evidence of it."""
    logs = np.log(values)

    def misfit(moved: Array) -> Array:
        error = logs - np.log(law(moved))
        off = error - error.mean() if free_level else error
        return np.concatenate([off / scatter, moved])

    found = least_squares(misfit, first, max_nfev=50)
    _, spread = np.linalg.slogdet(found.jac.T @ found.jac)
    num_free = len(logs) - free_level
    return np.asarray(found.x), float(-found.cost - num_free * np.log(scatter) - 0.5 * spread)
