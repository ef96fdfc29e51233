"""Gradient-boosted trees of LightGBM (Ke et al. 2017), with its default settings."""

from pathlib import Path
from typing import Any, ClassVar, Self

import lightgbm
import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
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

_FILES = ("center.txt", "low.txt", "high.txt")
_NUM_ROUNDS = 100
_QUANTILES = (0.1587, 0.8413)
"""One standard deviation to either side, if errors are normal."""
_QUANTILE_LEAVES = 4
"""More leaves tell every training application apart, and its spread is then 0."""


class LightgbmModel(SpreadModel):
    """Boosted trees, grown leaf by leaf, none of which lets power fall as the clock rises.

    Its spread is half the distance of two quantiles, from boosted trees of their own.
    """

    name: ClassVar[str] = "lightgbm"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        taught = examples(queries, values, self.target)
        self._center = self._boosted(taught, {"monotone_constraints": monotone(self.target)})
        self._low, self._high = (
            self._boosted(
                taught, {"objective": "quantile", "alpha": alpha, "num_leaves": _QUANTILE_LEAVES}
            )
            for alpha in _QUANTILES
        )
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return decoded(queries, _predicted(self._center, queries), self.target)

    @override
    def spread(self, queries: Queries) -> Array:
        outputs = np.array([_predicted(each, queries) for each in (self._low, self._high)])
        low, high = log_decoded(queries, outputs, self.target)
        return np.asarray(np.abs(high - low) / 2)

    @override
    def _state(self) -> State:
        return State()

    @override
    def _restore(self, state: State) -> None:
        """Everything is in the boosters' own files."""

    @override
    def _save_native(self, folder: Path) -> None:
        for booster, name in zip((self._center, self._low, self._high), _FILES, strict=True):
            (folder / name).write_text(booster.model_to_string())

    @override
    def _load_native(self, folder: Path) -> None:
        self._center, self._low, self._high = (_read(folder / name) for name in _FILES)

    def _boosted(self, taught: Examples, settings: dict[str, Any]) -> Any:
        data = lightgbm.Dataset(taught.inputs, label=taught.outputs, weight=taught.weights)
        fixed = {
            "num_threads": 1,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        return lightgbm.train({**fixed, **settings}, data, num_boost_round=_NUM_ROUNDS)


def _predicted(booster: Any, queries: Queries) -> Array:
    outputs = booster.predict(matrix(queries, INPUTS), num_threads=1)
    return np.asarray(outputs, dtype=float)


def _read(path: Path) -> Any:
    try:
        return lightgbm.Booster(model_str=path.read_text())
    except lightgbm.basic.LightGBMError as error:
        raise ConfigError(f"A model of LightGBM is required, got {path}: {error}.") from error
