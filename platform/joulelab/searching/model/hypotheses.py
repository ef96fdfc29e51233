"""Beliefs under several hypotheses, taken together by how likely each makes the measurements.

One normal distribution around the most likely parameters cannot say that time may be the host's
or the memory's, which look alike at high clocks and not at low ones. So a belief is formed under
each hypothesis, and their mixture is passed on by its mean and covariance: by what each leaves
open, and by how far the hypotheses are apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, qmc  # type: ignore[import-untyped]

from joulelab.searching.model.belief import Belief
from joulelab.searching.model.covariances import Covariances, Missed, Seen
from joulelab.searching.model.law import (
    NUM_PARAMETERS,
    CellBelief,
    Observed,
    Rows,
    log_time_power,
    slopes,
)
from joulelab.searching.model.parameters import BOUND, BoardPrior

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LOG2_DRAWS = 8
_MISSED = (
    Missed(time=0.03, power=0.02),
    Missed(time=0.1, power=0.03),
    Missed(time=0.4, power=0.2, alike="in a cell"),
    Missed(time=0.05, power=0.02, alike="in repeats"),
)
"""What the law misses where it does: estimates."""
_PRIOR = (0.45, 0.45, 0.06, 0.025, 0.01, 0.005)
"""How likely hypotheses are before anything is measured, the lawful ones first."""
_LEAST = (0.0, 0.0, 0.03, 0.02, 0.0, 0.0)
"""How likely they are at least: a law that holds where it was looked at may fail elsewhere."""
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantities:
    """Sums of logarithms of time and power, as all hypotheses see them.

    ``mean`` is what is expected of each, of shape ``(n,)``; ``apart`` by how much each hypothesis
    expects them elsewhere, of shape ``(hypotheses, n)``.
    """

    mean: Array
    seen: tuple[Seen, ...]
    apart: Array

    def at(self, places: Index) -> "Quantities":
        """Return some of them."""
        return Quantities(
            mean=self.mean[places],
            seen=tuple(each.at(places) for each in self.seen),
            apart=self.apart[:, places],
        )


class Hypotheses:
    """What measured configurations tell of the others, whatever bounds them.

    ``board`` is what is expected of the board, ``before`` what fewer measurements showed, the first
    of these; from there it goes on.
    """

    def __init__(
        self,
        covariances: Covariances,
        observed: Observed,
        board: BoardPrior,
        num_boards: int = 1,
        *,
        before: "Hypotheses | None" = None,
    ) -> None:
        made = partial(Belief, covariances, observed, board, num_boards)
        known: list[list[Belief]] = [[] for _ in _PRIOR]
        if before is not None:
            known = [[belief] for belief in before.beliefs]
        lawful = [made(working=w, starts=own) for w, own in zip(BOUND, known, strict=False)]
        first = int(np.argmax([belief.log_evidence for belief in lawful]))
        lawless = [
            made(working=BOUND[first], missed=missed, starts=[*own, lawful[first]])
            for missed, own in zip(_MISSED, known[len(BOUND) :], strict=True)
        ]
        self.beliefs: list[Belief] = lawful + lawless
        support = np.array([belief.log_evidence for belief in self.beliefs]) + np.log(_PRIOR)
        weights = np.exp(support - support.max())
        self._support: Array = weights / weights[: len(BOUND)].max()
        weights = np.maximum(weights / weights.sum(), _LEAST)
        self.weights: Array = np.where(weights < _NEGLIGIBLE, 0.0, weights)
        self.weights /= self.weights.sum()
        likeliest = self.beliefs[int(np.argmax(self.weights))]
        self.noise = likeliest.noise
        self.misfit = likeliest.misfit()

    @property
    def is_lawless(self) -> bool:
        """Whether the law is likelier to fail than to hold."""
        return bool(self.weights[len(BOUND) :].sum() > 0.5)

    @property
    def parts(self) -> Sequence[tuple[float, Belief]]:
        """How likely each hypothesis is, and what follows from it."""
        every = zip(self.weights, self.beliefs, strict=True)
        return [(weight, belief) for weight, belief in every if weight]

    def expected(self, rows: Rows) -> Array:
        """Return logarithms of time and power that are expected; shape ``(n, 2)``."""
        return np.asarray(np.tensordot(self._shares, self._each(rows), axes=1))

    def quantities(self, rows: Rows, weights: tuple[float, float]) -> Quantities:
        """Return a sum of logarithms of time and power, so weighed, of each row."""
        found = self._each(rows) @ np.array(weights)
        mean = self._shares @ found
        seen = tuple(belief.see(rows, weights) for _, belief in self.parts)
        return Quantities(mean=mean, seen=seen, apart=found - mean)

    def covariance(self, one: Quantities, other: Quantities) -> Array:
        """Return the covariances of two sets of quantities."""
        found = (one.apart.T * self._shares) @ other.apart
        for weight, belief, a, b in self._by_hypothesis(one, other):
            found += weight * belief.covariance(a, b)
        return np.asarray(found)

    def variance(self, one: Quantities, other: Quantities) -> Array:
        """Return the covariance of each quantity with its like of another set; shape ``(n,)``."""
        found = self._shares @ (one.apart * other.apart)
        for weight, belief, a, b in self._by_hypothesis(one, other):
            found += weight * belief.variance(a, b)
        return np.asarray(found)

    def drawn(self, rows: Rows) -> Array:
        """Return logarithms of time and power of ``rows`` of a cell under draws of what is unknown.

        They are on the first board. A hypothesis is drawn from as often as it is likely, and none
        in which the law fails. Shape ``(draws, n, 2)``.
        """
        normals, lawful = _normals(), self._support[: len(BOUND)]
        ends = np.round(np.cumsum(lawful / lawful.sum()) * len(normals)).astype(np.intp)
        parts = zip(self.beliefs, np.split(normals, ends[:-1]), strict=False)
        cell = int(rows.cell[0])
        found = [
            _cell_drawn(belief.of_cell(cell), rows, part) for belief, part in parts if len(part)
        ]
        return np.concatenate(found)

    @property
    def _shares(self) -> Array:
        return self.weights[self.weights > 0.0]

    def _each(self, rows: Rows) -> Array:
        """Return what each hypothesis expects; shape ``(hypotheses, n, 2)``."""
        return np.stack([belief.expected(rows) for _, belief in self.parts])

    def _by_hypothesis(
        self, one: Quantities, other: Quantities
    ) -> Sequence[tuple[float, Belief, Seen, Seen]]:
        pairs = zip(self.parts, one.seen, other.seen, strict=True)
        return [(weight, belief, a, b) for (weight, belief), a, b in pairs]


@cache
def _normals() -> Array:
    """Return points that fill a standard normal distribution evenly; shape ``(draws, 13)``."""
    points: Array = norm.ppf(qmc.Sobol(NUM_PARAMETERS, seed=0).random_base2(_LOG2_DRAWS))
    return points


_NUM_STEPS = 4


def _cell_drawn(belief: CellBelief, rows: Rows, normals: Array) -> Array:
    """Return logarithms of time and power of a cell's rows under draws; shape ``(m, n, 2)``.

    The covariance of a belief is that of the law made linear at its most likely parameters. Parts
    of power are known by their sum alone, so that logarithms of each may be far off: a draw of them
    has a sum that is wrong by ten times as much as was measured. So each draw is led back, along
    what was open before, to readings that the linear law gives it (Gauss-Newton steps by draw, as
    in randomized maximum likelihood; Oliver, Reynolds, Liu, "Inverse Theory for Petroleum Reservoir
    Characterization and History Matching", Cambridge 2008). ``normals`` have shape ``(m, 13)``.
    """
    variance, directions = np.linalg.eigh(belief.covariance)
    moved = normals @ (directions * np.sqrt(np.maximum(variance, 0.0))).T
    return _by_draw(log_time_power, _as_measured(belief, moved), rows)


def _as_measured(belief: CellBelief, moved: Array) -> Array:
    """Return parameters, moved from the likeliest, that keep to what was measured of the cell."""
    parameters, at = belief.likeliest + moved, belief.measured
    if not len(at.ratio):
        return np.asarray(parameters)
    likeliest = belief.likeliest[None]
    num = 2 * len(at.ratio)
    linear = _by_draw(slopes, likeliest, at).reshape(num, -1)
    wanted = _by_draw(log_time_power, likeliest, at).ravel() + moved @ linear.T
    own = belief.variance * np.eye(num)
    for _ in range(_NUM_STEPS):
        missed = wanted - _by_draw(log_time_power, parameters, at).reshape(wanted.shape)
        slope = _by_draw(slopes, parameters, at).reshape(len(parameters), num, -1)
        across = belief.prior @ slope.transpose(0, 2, 1)
        weights = np.linalg.solve(slope @ across + own, missed[:, :, None])
        parameters = parameters + (across @ weights)[:, :, 0]
    return np.asarray(parameters)


def _by_draw(law: Callable[..., Array], parameters: Array, rows: Rows) -> Array:
    """Return what the law, or its slopes, is at rows by draw, shape ``(m, n, ...)``."""
    m, n = len(parameters), len(rows.ratio)
    at = (np.tile(each, m) for each in (rows.ratio, rows.limit_w, rows.asked_w))
    found = law(np.repeat(parameters, n, axis=0), *at)
    return found.reshape(m, n, *found.shape[1:])
