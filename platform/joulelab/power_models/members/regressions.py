"""The mean, regressions and a published formula: what any other model has to beat."""

from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, required_medians
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names

_LOG_INPUTS = ("fp_active", "dram_active", "sm_active", "log_clock_ratio", "clock_ratio")
_PENALTIES = tuple(10.0**exponent for exponent in range(-4, 4))
_FGCS_INPUTS = ("fp_active", "dram_active")
_FGCS_POWER = np.array([-1.0318354343254663, 0.84864, 0.09749, 0.77006])
_FGCS_TIME = np.array([1.43847511, -0.16736726, -0.90400864, 0.48241361, 0.78898516])


class MeanModel(PowerModel):
    """The mean of the training applications at each clock, linear between clock ratios."""

    name: ClassVar[str] = "mean"
    learned_arrays: ClassVar[tuple[str, ...]] = ("clock_ratio", "mean")

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        ratios, which = np.unique(np.round(queries.clock_ratio, 6), return_inverse=True)
        self._clock_ratio = ratios
        self._mean = np.bincount(which, values) / np.bincount(which)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return np.interp(queries.clock_ratio, self._clock_ratio, self._mean)


class LogLinearModel(PowerModel):
    """``log y`` linear in the features of degree one, by ridge regression."""

    name: ClassVar[str] = "log_linear"
    learned_arrays: ClassVar[tuple[str, ...]] = (
        *("typical", "bounds", "center", "scale", "coefficients"),
    )
    degree: ClassVar[int] = 1

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        from sklearn.linear_model import RidgeCV

        inputs = matrix(queries, _LOG_INPUTS)
        self._typical = required_medians(inputs, _LOG_INPUTS)
        inputs = filled(inputs, self._typical)
        self._bounds = np.array([inputs.min(axis=0), inputs.max(axis=0)])
        columns = self._columns(queries)
        self._center, self._scale = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-9)
        found = RidgeCV(alphas=_PENALTIES).fit(
            (columns - self._center) / self._scale, np.log(values)
        )
        self._coefficients = np.append(found.coef_, found.intercept_)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        columns = (self._columns(queries) - self._center) / self._scale
        return np.asarray(np.exp(columns @ self._coefficients[:-1] + self._coefficients[-1]))

    def _columns(self, queries: Queries) -> Array:
        """Return the features, cut to the range of the training runs: squares run away."""
        from sklearn.preprocessing import PolynomialFeatures

        inputs = np.clip(filled(matrix(queries, _LOG_INPUTS), self._typical), *self._bounds)
        return np.asarray(PolynomialFeatures(self.degree, include_bias=False).fit_transform(inputs))


class PolynomialModel(LogLinearModel):
    """``log y`` with all squares and products of the features."""

    name: ClassVar[str] = "polynomial"
    degree: ClassVar[int] = 2


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
