"""How much the cells of a space are expected to have in common.

A quantity of a cell is a sum: what all cells share, an effect of each knob, an interaction of the
knobs, and a rest. Effects of a number (a batch size) are smooth in its logarithm, those of names
(a precision) are independent (Gaussian process with additive kernels; Duvenaud, Nickisch,
Rasmussen, "Additive Gaussian Processes", NeurIPS 2011).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve  # type: ignore[import-untyped]

from joulelab.core.configuration import KnobValue
from joulelab.searching.space import Cell

Array = NDArray[np.float64]

_LENGTH = 0.5
"""Over which share of a number's range its effects are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """By how much a quantity differs between cells: standard deviations.

    Attributes:
        shared: Of what all cells have in common, around the prior mean.
        named: Of the effect of a knob with names.
        number: Of the effect of a knob with numbers.
        together: Of the interaction of all knobs.
        rest: Of what no knob explains.
    """

    shared: float
    named: float = 0.0
    number: float = 0.0
    together: float = 0.0
    rest: float = 0.0


class CellKernel:
    """The correlations between the cells of a space, knob by knob.

    Args:
        cells: All cells.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        columns = _searched(cells)
        self._named = [_same(v) for v in columns.values() if not _are_numbers(v)]
        self._numbers = [_near(v) for v in columns.values() if _are_numbers(v)]
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


def _searched(cells: Sequence[Cell]) -> Mapping[str, list[KnobValue]]:
    """Return the values of each knob that differs between cells, in the order of the cells."""
    names = [name for name, _ in cells[0]]
    columns = {name: [dict(cell)[name] for cell in cells] for name in names}
    return {name: values for name, values in columns.items() if len(set(values)) > 1}


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
    kernel: CellKernel, spread: Spread, cell: NDArray[np.intp], logs: Array, u: Array
) -> tuple[Array, Array]:
    """Return what is expected of every cell's logarithm, and its standard deviation.

    Before anything is known it is expected to be 0.

    Args:
        kernel: What cells have in common.
        spread: By how much they differ.
        cell: Numbers of the cells that were measured; shape ``(n,)``.
        logs: What was found there.
        u: Its standard uncertainty.
    """
    prior = kernel.covariance(spread)
    if not len(cell):
        return np.zeros(len(prior)), np.sqrt(np.diag(prior))
    across = prior[:, cell]
    noise = np.diag(np.maximum(u, _LEAST_U) ** 2)
    solve = cho_factor(across[cell] + noise)
    variance = np.diag(prior) - np.einsum("ij,ji->i", across, cho_solve(solve, across.T))
    return across @ cho_solve(solve, logs), np.sqrt(np.maximum(variance, 0.0))
