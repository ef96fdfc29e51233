"""The mean of the training applications at each clock: what any model has to beat."""

from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State


class MeanModel(PowerModel):
    """Predicts the mean of the training applications, linear between clock ratios."""

    name: ClassVar[str] = "mean"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        ratios, which = np.unique(np.round(queries.clock_ratio, 6), return_inverse=True)
        self._clock_ratio = ratios
        self._mean = np.bincount(which, values) / np.bincount(which)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return np.interp(queries.clock_ratio, self._clock_ratio, self._mean)

    @override
    def _state(self) -> State:
        return State(arrays={"clock_ratio": self._clock_ratio, "mean": self._mean})

    @override
    def _restore(self, state: State) -> None:
        self._clock_ratio, self._mean = state.arrays["clock_ratio"], state.arrays["mean"]
