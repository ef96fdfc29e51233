"""The mean and a published formula: what any other model has to beat."""

from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, required_medians
from joulelab.power_models.members.tabular import log_unit
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names

_FGCS_INPUTS = ("fp_active", "dram_active")
_FGCS_POWER = np.array([-1.0318354343254663, 0.84864, 0.09749, 0.77006])
_FGCS_TIME = np.array([1.43847511, -0.16736726, -0.90400864, 0.48241361, 0.78898516])


class MeanModel(PowerModel):
    """The mean curve of the training applications over clock ratios, in logs.

    Each application counts once, linear between its own clocks and not beyond them. Power is over
    the board's limit. Measured points raise and tilt the curve, as those of every model.
    """

    name: ClassVar[str] = "mean"
    learned_arrays: ClassVar[tuple[str, ...]] = ("clock_ratio", "curve", "level")

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        logs, ratio = np.log(values) - log_unit(queries, self.target), queries.clock_ratio
        self._clock_ratio = np.unique(ratio)
        levels, curves = [], []
        for _, rows in queries.by_profile():
            own = rows[np.argsort(ratio[rows])]
            levels.append(np.interp(1.0, ratio[own], logs[own]))
            at = self._clock_ratio
            curve = np.interp(at, ratio[own], logs[own], left=np.nan, right=np.nan)
            curves.append(curve - levels[-1])
        self._level, self._curve = np.array(np.mean(levels)), np.nanmean(curves, axis=0)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        curve = np.interp(queries.clock_ratio, self._clock_ratio, self._curve)
        return np.asarray(np.exp(self._level + curve + log_unit(queries, self.target)))


class PublishedFgcsModel(PowerModel):
    """The log-linear model of Ali et al. (FGCS 2023) with its constants, fitted on one V100.

    ``ln(1 + P) = a + b fp + c dram + d ln(1 + f)`` and, with ``x = ln(1 + f_max) - ln(1 + f)``,
    ``ln(1 + T) = ln(1 + T_max) + p0 fp + p1 x + p2 fp^2 + p3 fp x + p4 x^2``. Time at the clock of
    the profile is that of the profile only if ``fp_active`` is 0: such is the published form.
    Constants are those of the authors' code (mertside/ai-inference-energy, models/fgcs_models.py).
    That has the V100's highest clock in its formula of time; here it is that of the profile, for on
    another GPU the published one is another model.
    """

    name: ClassVar[str] = "fgcs_published"
    learned_arrays: ClassVar[tuple[str, ...]] = ("coefficients", "typical")

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._typical = required_medians(matrix(queries, _FGCS_INPUTS), _FGCS_INPUTS)
        self._coefficients = _FGCS_POWER if self.target == "power_w" else _FGCS_TIME
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        logs = self._columns(queries) @ self._coefficients
        return np.asarray(np.expm1(logs) if self.target == "power_w" else np.exp(logs))

    def _columns(self, queries: Queries) -> Array:
        fp, dram = filled(matrix(queries, _FGCS_INPUTS), self._typical).T
        if self.target == "power_w":
            return np.column_stack([np.ones_like(fp), fp, dram, np.log1p(queries.sm_clock_mhz)])
        x = np.log1p(queries.at_profile.sm_clock_mhz) - np.log1p(queries.sm_clock_mhz)
        return np.column_stack([fp, x, fp**2, fp * x, x**2])
