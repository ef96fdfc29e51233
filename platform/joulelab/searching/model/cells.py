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
