"""The ridge-clock model of Kernel Tuner (Schoonhoven et al.), over many applications.

``P = P_idle + alpha f v^2`` with ``v = 1`` below the ridge clock and ``1 + beta (f - f_ridge)``
above it. There it is fitted to one kernel on one GPU; here ``alpha`` is a sum over activities with
weights of at least 0, and ridge and ``beta`` are common. Its time is ``c + b / f``.
"""

from typing import ClassVar, Self

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, medians
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

_INPUTS = ("fp_active", "dram_active", "sm_active")
_RIDGES = np.arange(0.4, 1.0, 0.05)
"""Tried ridge clocks, over the clock of the profile."""
_BETAS = np.arange(0.0, 2.01, 0.1)
"""Tried slopes of the voltage, per clock of the profile."""


class RidgeModel(PowerModel):
    """Constant power plus clock times squared voltage, the voltage rising above a ridge clock."""

    name: ClassVar[str] = "ridge"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        inputs = matrix(queries, _INPUTS)
        self._typical = medians(inputs, _INPUTS)
        shapes = [(0.0, 0.0)]
        if self.target == "power_w":
            shapes = [(ridge, beta) for ridge in _RIDGES for beta in _BETAS]
        fits = [(self._solved(queries, values, shape), shape) for shape in shapes]
        (_, self._weights), self._shape = min(fits, key=lambda fit: fit[0][0])
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return np.asarray(self._columns(queries, self._shape) @ self._weights)

    @override
    def _state(self) -> State:
        return State(
            values={"shape": [float(part) for part in self._shape]},
            arrays={"weights": self._weights, "typical": self._typical},
        )

    @override
    def _restore(self, state: State) -> None:
        ridge, beta = state.values["shape"]
        self._shape = (ridge, beta)
        self._weights, self._typical = state.arrays["weights"], state.arrays["typical"]

    def _solved(
        self, queries: Queries, values: Array, shape: tuple[float, float]
    ) -> tuple[float, Array]:
        """Return the misfit, relative to the values, and the weights, none of them negative."""
        columns = self._columns(queries, shape) / values[:, None]
        weights, misfit = nnls(columns, np.ones(len(values)))
        return float(misfit), np.asarray(weights)

    def _columns(self, queries: Queries, shape: tuple[float, float]) -> Array:
        inputs = filled(matrix(queries, _INPUTS), self._typical)
        ratio = queries.clock_ratio
        ones = np.ones_like(ratio)
        if self.target == "time_s":
            return np.column_stack([ones, 1.0 / ratio, inputs / ratio[:, None], inputs])
        ridge, beta = shape
        busy = ratio * (1.0 + beta * np.maximum(0.0, ratio - ridge)) ** 2
        return np.column_stack([ones, busy, inputs * busy[:, None]])
