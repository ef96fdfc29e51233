"""What the runs of a sweep show: power caps and scatter, and fewer of them to learn from."""

import numpy as np

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import NEAR_CAP, Array, Index

_LEAST_ROWS = 3


def caps_seen(queries: Queries, power_w: Array) -> dict[str, float]:
    """Return the power at which GPUs were capped, by label; without those that were not.

    A GPU was capped if several runs drew its limit, the board's default where none is known, and
    none drew more.
    """
    found = {}
    limits_w = [p.power_limit_w or p.spec.default_power_limit_w for p in queries.profiles]
    share = power_w / queries.of_profiles(limits_w)
    for gpu, rows in queries.by_gpu():
        near = rows[np.abs(share[rows] - 1.0) <= NEAR_CAP]
        if len(near) >= _LEAST_ROWS and share[rows].max() <= 1.0 + NEAR_CAP:
            found[gpu] = float(np.median(power_w[near]))
    return found


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
    for number, rows in queries.by_profile():
        if len(rows) >= _LEAST_CLOCKS:
            logs = np.log(values[rows[np.argsort(queries.sm_clock_mhz[rows], kind="stable")]])
            found[number] = _NORMAL * np.median(np.abs(off_neighbours(logs)))
    return found


def off_neighbours(logs: Array) -> Array:
    """Return how far values, ordered by clock, are from the mean of both neighbours.

    Scaled to the scatter of one value; two fewer than there are values.
    """
    return np.asarray((logs[1:-1] - (logs[:-2] + logs[2:]) / 2.0) * np.sqrt(2.0 / 3.0))


def thinned(queries: Queries, num_clocks: int = 16) -> Index:
    """Return the rows of at most ``num_clocks`` clocks of each profile, evenly over its range."""
    kept = []
    for _, rows in queries.by_profile():
        ordered = rows[np.argsort(queries.sm_clock_mhz[rows], kind="stable")]
        steps = np.linspace(0, len(rows) - 1, min(len(rows), num_clocks)).round()
        kept.append(ordered[steps.astype(np.intp)])
    return np.concatenate(kept)
