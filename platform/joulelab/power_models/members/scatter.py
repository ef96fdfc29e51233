"""How far measured points scatter, which a sweep tells by itself: neighbours are nearly alike."""

import numpy as np

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array

_LEAST_CLOCKS = 5
_NORMAL = 1.4826
"""Standard deviation of normal numbers over the median of their absolute values."""


def own_scatter(queries: Queries, values: Array) -> Array:
    """Return by how much single values of each profile scatter, shape ``(profiles,)``.

    Relative standard deviation, by how far a value is from the mean of its two neighbours in clock
    (of equal independent scatters that differs by sqrt(3/2) of one); by the median, so that a few
    failed runs do not count. 0 for a profile with fewer than five clocks.
    """
    found = np.zeros(len(queries.profiles))
    for number in np.unique(queries.profile):
        rows = np.flatnonzero(queries.profile == number)
        if len(rows) >= _LEAST_CLOCKS:
            logs = np.log(values[rows[np.argsort(queries.sm_clock_mhz[rows], kind="stable")]])
            found[number] = _NORMAL * np.median(np.abs(off_neighbours(logs)))
    return found


def off_neighbours(logs: Array) -> Array:
    """Return how far values, ordered by clock, are from the mean of both neighbours.

    Scaled to the scatter of one value; two fewer than there are values.
    """
    return np.asarray((logs[1:-1] - (logs[:-2] + logs[2:]) / 2.0) * np.sqrt(2.0 / 3.0))
