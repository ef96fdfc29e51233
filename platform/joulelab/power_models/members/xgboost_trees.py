"""Gradient-boosted trees of XGBoost (Chen and Guestrin 2016), with its default settings."""

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import xgboost
from typing_extensions import override

from joulelab.power_models.features import matrix
from joulelab.power_models.members.spread import SpreadModel
from joulelab.power_models.members.tabular import (
    INPUTS,
    Examples,
    decoded,
    examples,
    log_decoded,
    monotone,
)
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

_FILES = ("center.ubj", "quantiles.ubj")
_NUM_ROUNDS = 100
_QUANTILES = [0.1587, 0.8413]
"""One standard deviation to either side, if errors are normal."""
_QUANTILE_DEPTH = 2
"""Deeper trees tell every training application apart, and its spread is then 0."""


class XgboostModel(SpreadModel):
    """Boosted trees, none of which lets power fall as the clock rises.

    Its spread is half the distance of two quantiles, from boosted trees of their own.
    """

    name: ClassVar[str] = "xgboost"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        taught = examples(queries, values, self.target)
        self._center = self._boosted(taught, {"monotone_constraints": tuple(monotone(self.target))})
        self._quantiles = self._boosted(
            taught,
            {
                "objective": "reg:quantileerror",
                "quantile_alpha": _QUANTILES,
                "max_depth": _QUANTILE_DEPTH,
            },
        )
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        outputs = self._center.inplace_predict(matrix(queries, INPUTS))
        return decoded(queries, outputs.astype(float), self.target)

    @override
    def spread(self, queries: Queries) -> Array:
        outputs = self._quantiles.inplace_predict(matrix(queries, INPUTS)).astype(float)
        low, high = log_decoded(queries, outputs.T, self.target)
        return np.asarray(np.abs(high - low) / 2)

    @override
    def _state(self) -> State:
        return State()

    @override
    def _restore(self, state: State) -> None:
        """Everything is in the boosters' own files."""

    @override
    def _save_native(self, folder: Path) -> None:
        for booster, name in zip((self._center, self._quantiles), _FILES, strict=True):
            booster.save_model(folder / name)

    @override
    def _load_native(self, folder: Path) -> None:
        self._center, self._quantiles = (_read(folder / name) for name in _FILES)

    def _boosted(self, taught: Examples, settings: dict[str, Any]) -> Any:
        data = xgboost.DMatrix(taught.inputs, label=taught.outputs, weight=taught.weights)
        fixed = {"nthread": 1, "seed": self.seed, "verbosity": 0, "tree_method": "hist"}
        return xgboost.train({**fixed, **settings}, data, num_boost_round=_NUM_ROUNDS)


def _read(path: Path) -> Any:
    booster = xgboost.Booster(params={"nthread": 1})
    booster.load_model(path)
    return booster
