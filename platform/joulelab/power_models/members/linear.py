"""Ridge regression of the logarithm on features: the simplest member, and of degree two."""

from typing import ClassVar, Self

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import PolynomialFeatures
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, medians
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

_INPUTS = ("fp_active", "dram_active", "sm_active", "log_clock_ratio", "clock_ratio")
_PENALTIES = tuple(10.0**exponent for exponent in range(-4, 4))


class LogLinearModel(PowerModel):
    """``log y`` linear in the features of degree one."""

    name: ClassVar[str] = "log_linear"
    degree: ClassVar[int] = 1

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        inputs = matrix(queries, _INPUTS)
        self._typical = medians(inputs, _INPUTS)
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

    @override
    def _state(self) -> State:
        names = ("typical", "bounds", "center", "scale", "coefficients")
        return State(arrays={name: getattr(self, f"_{name}") for name in names})

    @override
    def _restore(self, state: State) -> None:
        self._typical, self._bounds = state.arrays["typical"], state.arrays["bounds"]
        self._center, self._scale = state.arrays["center"], state.arrays["scale"]
        self._coefficients = state.arrays["coefficients"]

    def _columns(self, queries: Queries) -> Array:
        """Return the features, cut to the range of the training runs: squares run away."""
        inputs = np.clip(filled(matrix(queries, _INPUTS), self._typical), *self._bounds)
        return np.asarray(PolynomialFeatures(self.degree, include_bias=False).fit_transform(inputs))


class PolynomialModel(LogLinearModel):
    """``log y`` with all squares and products of the features."""

    name: ClassVar[str] = "polynomial"
    degree: ClassVar[int] = 2
