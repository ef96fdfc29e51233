"""Beliefs under several hypotheses, taken together by how likely each makes the measurements.

One normal distribution around the most likely parameters cannot say that time may be the host's
or the memory's, which look alike at high clocks and not at low ones. So a belief is formed under
each hypothesis, and their mixture is passed on by its mean and covariance: by what each leaves
open, and by how far the hypotheses are apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, qmc  # type: ignore[import-untyped]

from joulelab.searching.model.belief import Belief
from joulelab.searching.model.covariances import Covariances, Missed, Seen
from joulelab.searching.model.draws import drawn
from joulelab.searching.model.law import NUM_PARAMETERS, Observed, Rows
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

    ``board`` is what is expected of the board, ``before`` what fewer measurements told, the first
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
        in which the law fails.

        Returns:
            Shape ``(draws, n, 2)``.
        """
        normals, lawful = _normals(), self._support[: len(BOUND)]
        ends = np.round(np.cumsum(lawful / lawful.sum()) * len(normals)).astype(np.intp)
        parts = zip(self.beliefs, np.split(normals, ends[:-1]), strict=False)
        cell = int(rows.cell[0])
        found = [drawn(belief.of_cell(cell), rows, part) for belief, part in parts if len(part)]
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
