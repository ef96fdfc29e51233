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
from dataclasses import dataclass
from typing import NamedTuple

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


def scatter_of_applications(queries: Queries, values: Array) -> dict[str, float]:
    """Return the root mean square of :func:`own_scatter` over the GPUs that each ran on."""
    found: dict[str, list[float]] = {}
    for profile, scatter in zip(queries.profiles, own_scatter(queries, values), strict=True):
        if scatter > 0.0:
            found.setdefault(profile.application, []).append(float(scatter))
    return {name: float(np.sqrt(np.mean(np.square(each)))) for name, each in found.items()}


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


_READING_ERROR = 0.005
"""Relative standard error of a measured point, where nothing is known of its scatter."""
_LEAST_SCATTER = 0.002
_MOST_TRIED = 6

_STEP = 1e-6
_MOST_STEPS = 50
_SETTLED = 1e-7
"""Steps below this, in doubts, are the last of a profile."""
_MOST_DAMPED = 1e9

Law = Callable[[Array], Array]
"""What is expected of each reading, by parameters of all profiles, shape (profiles, parameters)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Readings of some profiles, which are fitted side by side, each by its own parameters."""

    law: Law  # by how far parameters are moved from what is guessed, in their doubts
    values: Array  # the readings, shape (n,)
    which: Index  # the profile of each, counted from 0
    shape: tuple[int, int]  # how many profiles and parameters there are
    # Whether the readings of a profile are over one of them, which scatters as they do: then they
    # show the shape and not the level.
    free_level: bool = False

    def sums(self, values: Array) -> Array:
        """Return the sum over each profile."""
        return np.bincount(self.which, values, self.shape[0]).astype(np.float64)

    @property
    def counts(self) -> Array:
        """How many readings there are of each profile."""
        return self.sums(np.ones(len(self.values)))

    def errors(self, moved: Array) -> Array:
        """Return the logs of measured over expected."""
        off = np.log(self.values) - np.log(self.law(moved))
        if not self.free_level:
            return np.asarray(off)
        return np.asarray(off - (self.sums(off) / np.maximum(self.counts, 1.0))[self.which])


class Fit(NamedTuple):
    """A law fitted to readings."""

    # Parameters of each profile, as multiples of their doubts away from what is guessed.
    moved: Array
    scatter: Array  # relative standard deviation of one reading of each profile


def met(readings: Readings) -> Array:
    """Return how parameters are moved so that the law meets readings, as little as that needs."""
    return _likeliest(readings, np.zeros(readings.shape), _READING_ERROR)[0]


def fitted_to(readings: Readings, scatters: Array) -> Fit:
    """Fit a law to two readings or more of each profile.

    ``scatters`` are the relative ones of single readings of other applications.
    """
    tried, share = _tried(scatters)
    moved = np.zeros((len(tried), *readings.shape))
    evidence = np.repeat(np.log(share)[:, None], readings.shape[0], axis=1)
    for number, scatter in enumerate(tried):
        first = moved[max(number - 1, 0)]
        moved[number], found = _likeliest(readings, first, float(scatter))
        evidence[number] += found
    likely = np.exp(evidence - evidence.max(axis=0))
    likely /= likely.sum(axis=0)
    scatter = np.sqrt(np.einsum("tp,t->p", likely, tried**2))
    return Fit(moved=np.einsum("tp,tpk->pk", likely, moved), scatter=scatter)


def _tried(scatters: Array) -> tuple[Array, Array]:
    """Return some scatters, descending, from the largest to the least, and each one's share."""
    known = np.sort(np.maximum(scatters, _LEAST_SCATTER))[::-1]
    if not len(known):
        return np.array([_READING_ERROR]), np.ones(1)
    steps = np.linspace(0, len(known) - 1, min(len(known), _MOST_TRIED)).round().astype(np.intp)
    share = np.ones(len(steps))
    share[[0, -1]] = 0.5 if len(known) > _MOST_TRIED else 1.0
    return known[steps], share / share.sum()


def _likeliest(readings: Readings, first: Array, scatter: float) -> tuple[Array, Array]:
    """Return the likeliest parameters if readings scatter so, and the log of the evidence of it.

    By damped Gauss-Newton steps of each profile (Levenberg 1944; Marquardt 1963).
    """
    moved, damping = first.copy(), np.full(readings.shape[0], 1e-3)
    errors = readings.errors(moved) / scatter
    cost = _cost(readings, errors, moved)
    for _ in range(_MOST_STEPS):
        normal, slope = _linear(readings, errors, moved, scatter)
        damped = normal * (1.0 + damping[:, None, None] * np.eye(readings.shape[1]))
        tried = moved - np.linalg.solve(damped, slope[:, :, None])[:, :, 0]
        errors_tried = readings.errors(tried) / scatter
        cost_tried = _cost(readings, errors_tried, tried)
        is_better = cost_tried < cost
        settled = np.abs(tried - moved).max(axis=1) < _SETTLED
        moved = np.where(is_better[:, None], tried, moved)
        errors = np.where(is_better[readings.which], errors_tried, errors)
        cost = np.where(is_better, cost_tried, cost)
        damping = damping * np.where(is_better, 0.1, 10.0)
        if (settled | (damping > _MOST_DAMPED)).all():
            break
    _, spread = np.linalg.slogdet(_linear(readings, errors, moved, scatter)[0])
    num_free = readings.counts - readings.free_level
    return moved, -cost - num_free * np.log(scatter) - 0.5 * spread


def _cost(readings: Readings, errors: Array, moved: Array) -> Array:
    return np.asarray((readings.sums(errors**2) + (moved**2).sum(axis=1)) / 2.0)


def _linear(readings: Readings, errors: Array, moved: Array, scatter: float) -> tuple[Array, Array]:
    """Return the second and first derivatives of the cost by the parameters of each profile."""
    num_profiles, num_parameters = readings.shape
    steps = _STEP * np.eye(num_parameters)
    slopes = [(readings.errors(moved + step) / scatter - errors) / _STEP for step in steps]
    normal = np.empty((num_profiles, num_parameters, num_parameters))
    slope = moved.copy()
    for row, own in enumerate(slopes):
        slope[:, row] += readings.sums(own * errors)
        for column, other in enumerate(slopes):
            normal[:, row, column] = readings.sums(own * other) + (row == column)
    return normal, slope
