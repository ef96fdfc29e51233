"""The log-linear model of Ali et al. (FGCS 2023), with published constants and fitted anew.

``ln(1 + P) = a + b fp + c dram + d ln(1 + f)`` and, with ``x = ln(1 + f_max) - ln(1 + f)``,
``ln(1 + T) = ln(1 + T_max) + p0 fp + p1 x + p2 fp^2 + p3 fp x + p4 x^2``. Constants of the code
that the paper's authors published (mertside/ai-inference-energy, models/fgcs_models.py).
"""

from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, medians
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

_INPUTS = ("fp_active", "dram_active")
_POWER = np.array([-1.0318354343254663, 0.84864, 0.09749, 0.77006])
_TIME = np.array([1.43847511, -0.16736726, -0.90400864, 0.48241361, 0.78898516])


class FgcsModel(PowerModel):
    """The model with its coefficients fitted to the training runs.

    Time at the clock of the profile is that of the profile only if ``fp_active`` is 0: such is
    the published form.
    """

    name: ClassVar[str] = "fgcs"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._typical = medians(matrix(queries, _INPUTS), _INPUTS)
        logs = np.log1p(values) if self.target == "power_w" else np.log(values)
        self._coefficients = np.linalg.lstsq(self._columns(queries), logs, rcond=None)[0]
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        logs = self._columns(queries) @ self._coefficients
        return np.asarray(np.expm1(logs) if self.target == "power_w" else np.exp(logs))

    @override
    def _state(self) -> State:
        return State(arrays={"coefficients": self._coefficients, "typical": self._typical})

    @override
    def _restore(self, state: State) -> None:
        self._coefficients, self._typical = state.arrays["coefficients"], state.arrays["typical"]

    def _columns(self, queries: Queries) -> Array:
        fp, dram = filled(matrix(queries, _INPUTS), self._typical).T
        if self.target == "power_w":
            return np.column_stack([np.ones_like(fp), fp, dram, np.log1p(queries.sm_clock_mhz)])
        top_mhz = queries.of_profiles([profile.clock_mhz for profile in queries.profiles])
        x = np.log1p(top_mhz) - np.log1p(queries.sm_clock_mhz)
        return np.column_stack([fp, x, fp**2, fp * x, x**2])


class PublishedFgcsModel(FgcsModel):
    """The model with the published constants, which were fitted on one V100.

    The published code has the V100's highest clock in its formula of time; here it is that of
    the profile, for on another GPU the published one is another model.
    """

    name: ClassVar[str] = "fgcs_published"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._typical = medians(matrix(queries, _INPUTS), _INPUTS)
        self._coefficients = _POWER if self.target == "power_w" else _TIME
        return self
