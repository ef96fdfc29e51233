"""How quantities of configurations vary together before anything is measured.

Each quantity is a sum of logarithms of time and power, made linear in what is unknown. Of that,
parameters of cells vary together by what cells have in common, and all else is shared by all. What
the law misses is a Gaussian process over cells and operating points (Kennedy, O'Hagan, "Bayesian
calibration of computer models", Journal of the Royal Statistical Society B 63, 2001), of Matern's
class with one derivative, which follows a kink and bends at a step.

A quantity of a cell is a sum: what all cells share, an effect of each knob, an interaction of the
knobs, and a rest. Effects of a number (a batch size) are smooth in its logarithm, those of names
(a precision) are independent (Gaussian process with additive kernels; Duvenaud, Nickisch,
Rasmussen, "Additive Gaussian Processes", NeurIPS 2011).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve  # type: ignore[import-untyped]

from joulelab.core.configuration import KnobValue
from joulelab.searching.space import Cell

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LENGTH = 0.5  # over which share of a number's range its effects are alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """By how much a quantity differs between cells: standard deviations."""

    shared: float  # of what all cells have in common, around the prior mean
    named: float = 0.0  # of the effect of a knob with names
    number: float = 0.0  # of the effect of a knob with numbers
    together: float = 0.0  # of the interaction of all knobs
    rest: float = 0.0  # of what no knob explains


class CellKernel:
    """The correlations between the cells of a space, knob by knob."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        columns = [
            v for v in zip(*(dict(c).values() for c in cells), strict=True) if len(set(v)) > 1
        ]
        self._named = [_same(v) for v in columns if not _are_numbers(v)]
        self._numbers = [_near(v) for v in columns if _are_numbers(v)]
        self._num = len(cells)

    def covariance(self, spread: Spread) -> Array:
        """Return the prior covariance of a quantity, shape ``(cells, cells)``."""
        ones = np.ones((self._num, self._num))
        total = spread.shared**2 * ones + spread.rest**2 * np.eye(self._num)
        for each in self._named:
            total += spread.named**2 * each
        for each in self._numbers:
            total += spread.number**2 * each
        knobs = [*self._named, *self._numbers]
        if len(knobs) > 1:
            total += spread.together**2 * np.prod(knobs, axis=0)
        return total


def _are_numbers(values: Sequence[KnobValue]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values)


def _same(values: Sequence[KnobValue]) -> Array:
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    at = np.array([numbers[value] for value in values])
    return np.asarray(at[:, None] == at[None, :], dtype=np.float64)


def _near(values: Sequence[KnobValue]) -> Array:
    logs = np.log(np.array(values, dtype=np.float64))
    place = (logs - logs.min()) / (logs.max() - logs.min())
    distance = (place[:, None] - place[None, :]) / _LENGTH
    return np.asarray(np.exp(-(distance**2) / 2))


QUALITY = Spread(shared=0.02, named=0.05, number=0.02, together=0.02, rest=0.01)
"""Of the logarithm of what is kept of the quality; formats differ by some percent."""
MEMORY = Spread(shared=1.0, named=0.5, number=1.0, together=0.2, rest=0.1)
"""Of the logarithm of the memory in use."""
_LEAST_U = 1e-3


def field(
    kernel: CellKernel, spread: Spread, cell: Index, logs: Array, u: Array
) -> tuple[Array, Array]:
    """Return what is expected of every cell's logarithm, and its standard deviation.

    Before anything is known it is expected to be 0. ``logs`` with uncertainties ``u`` were found at
    the numbers ``cell``, all of shape ``(n,)``.
    """
    prior = kernel.covariance(spread)
    if not len(cell):
        return np.zeros(len(prior)), np.sqrt(np.diag(prior))
    across = prior[:, cell]
    noise = np.diag(np.maximum(u, _LEAST_U) ** 2)
    solve = cho_factor(across[cell] + noise)
    variance = np.diag(prior) - np.einsum("ij,ji->i", across, cho_solve(solve, across.T))
    return across @ cho_solve(solve, logs), np.sqrt(np.maximum(variance, 0.0))


_SPREADS = (
    Spread(shared=1.0, named=1.0, number=1.5, together=0.5, rest=0.05),
    Spread(shared=1.5, named=0.7, number=1.5, together=0.5, rest=0.1),
    Spread(shared=1.0, named=0.5, number=0.5, together=0.3, rest=0.1),
    Spread(shared=0.5, named=0.1, number=0.2, together=0.1, rest=0.03),
    Spread(shared=0.6, named=0.5, number=0.7, together=0.3, rest=0.05),
    Spread(shared=0.6, named=0.5, number=0.7, together=0.3, rest=0.05),
    Spread(shared=0.1, named=0.05, number=0.08, together=0.03, rest=0.02),
)
"""Of the parameters of a cell: time, working, memory_time, clocked, pipes, memory, peak."""
_MISSED = Spread(shared=0.7, named=0.3, number=0.4, together=0.3, rest=0.4)
"""Of what the law misses, over its size in one cell."""
_LENGTHS = np.array([0.15, 0.25])  # over which logarithms of clock and of power limit that is alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Standard deviations of what the law misses of logarithms of time and power.

    They are ``alike`` nearby, also in other cells; at all operating points of a cell, and in no
    other; or in repeats of a configuration alone.
    """

    time: float
    power: float
    alike: Literal["nearby", "in a cell", "in repeats"] = "nearby"

    @property
    def variances(self) -> Array:
        """Variances of time and power."""
        return np.square([self.time, self.power])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Quantities of some configurations."""

    weights: Array  # of the logarithms of time and of power in the sum; shape (n, 2)
    cell: Index  # number of the cell; shape (n,)
    place: Array  # where they are on the axes of the operating point; shape (n, 2)
    of_cell: Array  # derivatives by the parameters of the cell; shape (n, 7)
    shared: Array  # derivatives by what is common to all; shape (n, q)

    def at(self, places: Index) -> "Sums":
        """Return some of them."""
        return Sums(**{field.name: getattr(self, field.name)[places] for field in fields(self)})

    def and_then(self, other: "Sums") -> "Sums":
        """Return all of these, and then those of ``other``."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return Sums(**{name: np.concatenate(pair) for name, pair in pairs.items()})

    def beside(self, other: "Sums") -> "Sums":
        """Return each, followed by its like of ``other``."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        both = {name: np.stack(pair, axis=1) for name, pair in pairs.items()}
        return Sums(**{name: b.reshape(2 * len(b), *b.shape[2:]) for name, b in both.items()})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Quantities of some configurations, and what measurements tell of them.

    ``known`` are covariances with what was measured, in whose terms these are one each; shape ``(2
    m, n)``.
    """

    sums: Sums
    known: Array

    def at(self, places: Index) -> "Seen":
        """Return some of them."""
        return Seen(sums=self.sums.at(places), known=self.known[:, places])

    def after(self, known: Array) -> "Seen":
        """Return the same with covariances with further readings; shape ``(2 k, n)``."""
        return Seen(sums=self.sums, known=np.vstack([self.known, known]))


class Covariances:
    """Covariances of the quantities of a space before anything is measured."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        kernel = CellKernel(cells)
        self.of_cells: Array = np.stack([kernel.covariance(spread) for spread in _SPREADS])
        missed = kernel.covariance(_MISSED)
        self._alike = missed / missed[0, 0]
        self._asked: tuple[NDArray[Any], ...] = ()
        self._nearby: Array = np.zeros((0, 0))

    def law(self, one: Sums, other: Sums, shared_variance: Array) -> Array:
        """Return covariances by the law, shape ``(len(one), len(other))``.

        Of what is common to all, the first counts that has a ``shared_variance``.
        """
        if len(other.cell) < len(one.cell):  # what is few has few cells
            return self.law(other, one, shared_variance).T
        num = len(shared_variance)
        both = one.shared[:, :num].any(axis=0) & other.shared[:, :num].any(axis=0)
        at = np.flatnonzero(both)  # boards' offsets are most, of which few have any
        found = (one.shared[:, at] * shared_variance[at]) @ other.shared[:, at].T
        for cell in np.unique(one.cell):
            at, alike = np.flatnonzero(one.cell == cell), self.of_cells[:, cell, other.cell]
            found[at] += one.of_cell[at] @ (alike * other.of_cell.T)
        return np.asarray(found)

    def law_variance(self, one: Sums, other: Sums, shared_variance: Array) -> Array:
        """Return covariances by the law of each with its like, shape ``(n,)``."""
        of_cells = self.of_cells[:, one.cell, other.cell]
        found = np.einsum("np,pn,np->n", one.of_cell, of_cells, other.of_cell)
        return np.asarray(found + (one.shared * shared_variance * other.shared).sum(axis=1))

    def missed(self, one: Sums, other: Sums, missed: Missed) -> Array:
        """Return covariances of what the law misses; shape ``(len(one), len(other))``."""
        found = self.alike(one.cell, one.place, other.cell, other.place, missed)
        return np.asarray(found * ((one.weights * missed.variances) @ other.weights.T))

    def alike(
        self, cell: Index, place: Array, other_cell: Index, other_place: Array, missed: Missed
    ) -> Array:
        """Return correlations of what the law misses of some configurations and of others."""
        if missed.alike != "nearby":
            same = cell[:, None] == other_cell
            if missed.alike == "in repeats":
                same &= (place[:, None] == other_place[None]).all(axis=2)
            return np.asarray(same, dtype=np.float64)
        asked = (cell, place, other_cell, other_place)
        known = zip(asked, self._asked, strict=bool(self._asked))
        if not self._asked or any(one is not other for one, other in known):
            self._asked, self._nearby = asked, self._alike_nearby(*asked)
        return self._nearby  # several hypotheses ask the same

    def _alike_nearby(
        self, cell: Index, place: Array, other_cell: Index, other_place: Array
    ) -> Array:
        away = np.zeros((len(cell), len(other_cell)))
        for axis, length in enumerate(_LENGTHS):
            if place[:, axis].any() or other_place[:, axis].any():
                away += ((place[:, axis, None] - other_place[None, :, axis]) / length) ** 2
        return np.asarray(_matern(away) * self._alike[np.ix_(cell, other_cell)])

    def missed_variance(self, one: Sums, other: Sums, missed: Missed) -> Array:
        """Return covariances of what the law misses of each with its like, shape ``(n,)``."""
        variance = np.sum(one.weights * missed.variances * other.weights, axis=1)
        if missed.alike != "nearby":
            same = one.cell == other.cell
            if missed.alike == "in repeats":
                same &= (one.place == other.place).all(axis=1)
            return np.asarray(variance * same)
        away = np.sum(((one.place - other.place) / _LENGTHS) ** 2, axis=1)
        return np.asarray(_matern(away) * self._alike[one.cell, other.cell] * variance)


def _matern(squared: Array) -> Array:
    """Return Matern's correlation with one derivative at squared distances."""
    far = np.sqrt(3.0 * squared)
    return np.asarray((1.0 + far) * np.exp(-far))
