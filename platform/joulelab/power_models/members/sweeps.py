"""What the runs of a sweep show: power caps and scatter, and fewer of them to learn from."""

import numpy as np

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import NEAR_CAP, Array, Index

_LEAST_ROWS = 3
_LEAST_SPAN = 0.1
"""Clocks, in logs, over which the power of no application stays the same unless a cap holds it; of
one that memory bounds it may, but not at the very power of another."""
_LEAST_FLAT = 2


def caps_seen(queries: Queries, power_w: Array) -> dict[str, float]:
    """Return the power at which GPUs were capped, by label; without those that were not.

    A GPU was capped if several runs drew its limit, the board's default where none is known, and
    none drew more; or if several applications drew the same power up to their highest clocks, and
    none drew more: boards are sold with limits of their own.
    """
    found = {}
    limits_w = [p.power_limit_w or p.spec.default_power_limit_w for p in queries.profiles]
    share = power_w / queries.of_profiles(limits_w)
    for gpu, rows in queries.by_gpu():
        near = rows[np.abs(share[rows] - 1.0) <= NEAR_CAP]
        if share[rows].max() > 1.0 + NEAR_CAP or len(near) < _LEAST_ROWS:
            near = _flat_at_top(queries, power_w, rows)
        if len(near):
            found[gpu] = float(np.median(power_w[near]))
    return found


def _flat_at_top(queries: Queries, power_w: Array, rows: Index) -> Index:
    """Return the rows of a GPU at which several applications drew the same, its highest power."""
    near = rows[power_w[rows] >= (1.0 - NEAR_CAP) * power_w[rows].max()]
    flat = []
    for number in np.unique(queries.profile[near]):
        own = near[queries.profile[near] == number]
        clocks_mhz = queries.sm_clock_mhz[own]
        highest_mhz = queries.sm_clock_mhz[rows[queries.profile[rows] == number]].max()
        wide = np.log(highest_mhz / clocks_mhz.min()) >= _LEAST_SPAN
        if len(own) >= _LEAST_ROWS and wide and clocks_mhz.max() == highest_mhz:
            flat.append(own)
    return np.concatenate(flat) if len(flat) >= _LEAST_FLAT else near[:0]


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
