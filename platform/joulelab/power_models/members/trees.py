"""Trees: a random forest, and boosted ones of XGBoost and LightGBM, with their default settings.

Breiman 2001; Chen and Guestrin 2016; Ke et al. 2017.
"""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.power_models.features import filled, matrix, medians
from joulelab.power_models.members.tabular import (
    INPUTS,
    CommitteeModel,
    Examples,
    SpreadModel,
    decoded,
    examples,
    log_decoded,
    monotone,
)
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names

_FOREST = "forest.skops"
_TRUSTED = {"sklearn.tree._tree.Tree"}
"""Types that skops does not know and that are nothing but numbers."""
_NUM_ROUNDS = 100
_QUANTILES = (0.1587, 0.8413)
"""One standard deviation to either side, if errors are normal.

Their trees have four leaves: larger ones know every training application apart, and their spread is
then 0.
"""


class RandomForestModel(CommitteeModel):
    """The mean of a hundred trees; its spread is that between them."""

    name: ClassVar[str] = "random_forest"
    learned_arrays: ClassVar[tuple[str, ...]] = ("typical",)

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        from sklearn.ensemble import RandomForestRegressor

        taught = examples(queries, values, self.target)
        self._typical = medians(taught.inputs, 0.0)
        forest = RandomForestRegressor(random_state=self.seed, n_jobs=1)
        inputs = filled(taught.inputs, self._typical)
        self._forest: Any = forest.fit(inputs, taught.outputs, sample_weight=taught.weights)
        return self

    @override
    def outputs(self, queries: Queries) -> Array:
        # One by one: the forest's own predict takes longer to share them out among threads.
        inputs = filled(matrix(queries, INPUTS), self._typical).astype(np.float32)
        return np.array([tree.tree_.predict(inputs)[:, 0] for tree in self._forest.estimators_])

    @override
    def _save_native(self, folder: Path) -> None:
        import skops.io

        skops.io.dump(self._forest, folder / _FOREST)

    @override
    def _load_native(self, folder: Path) -> None:
        import skops.io

        unknown = set(skops.io.get_untrusted_types(file=folder / _FOREST)) - _TRUSTED
        if unknown:
            raise ConfigError(
                f"A file with nothing but a forest is required, {folder / _FOREST} holds "
                f"{sorted(unknown)}; do not load it."
            )
        self._forest = skops.io.load(folder / _FOREST, trusted=sorted(_TRUSTED))


class BoostedModel(SpreadModel):
    """Boosted trees, none of which lets power fall as the clock rises.

    Their spread is half the distance of two quantiles, from boosted trees of their own.
    """

    files: ClassVar[tuple[str, ...]]
    """Names of the boosters' files: that of the answers, and those of the quantiles."""
    quantiles: ClassVar[tuple[Mapping[str, Any], ...]]
    """Settings of the boosters of the quantiles."""

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        taught = examples(queries, values, self.target)
        rising = {"monotone_constraints": tuple(monotone(self.target))}
        self._boosters = [self._trained(taught, each) for each in (rising, *self.quantiles)]
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return decoded(queries, self._output(self._boosters[0], queries), self.target)

    @override
    def spread(self, queries: Queries) -> Array:
        outputs = [self._output(booster, queries) for booster in self._boosters[1:]]
        low, high = log_decoded(queries, np.column_stack(outputs).T, self.target)
        return np.asarray(np.abs(high - low) / 2)

    @abstractmethod
    def _trained(self, taught: Examples, settings: Mapping[str, Any]) -> Any:
        """Train a booster."""

    @abstractmethod
    def _output(self, booster: Any, queries: Queries) -> Array:
        """Return what a booster puts out, shape ``(n,)`` or ``(n, outputs)``."""

    @abstractmethod
    def _read(self, path: Path) -> Any:
        """Read a booster."""

    @override
    def _load_native(self, folder: Path) -> None:
        self._boosters = [self._read(folder / name) for name in self.files]


class XgboostModel(BoostedModel):
    """Boosted trees of XGBoost."""

    name: ClassVar[str] = "xgboost"
    files: ClassVar[tuple[str, ...]] = ("center.ubj", "quantiles.ubj")
    quantiles: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"objective": "reg:quantileerror", "quantile_alpha": [*_QUANTILES], "max_depth": 2},
    )

    @override
    def _output(self, booster: Any, queries: Queries) -> Array:
        return np.asarray(booster.inplace_predict(matrix(queries, INPUTS)), dtype=float)

    @override
    def _save_native(self, folder: Path) -> None:
        for booster, name in zip(self._boosters, self.files, strict=True):
            booster.save_model(folder / name)

    @override
    def _read(self, path: Path) -> Any:
        import xgboost

        booster = xgboost.Booster(params={"nthread": 1})
        booster.load_model(path)
        return booster

    @override
    def _trained(self, taught: Examples, settings: Mapping[str, Any]) -> Any:
        import xgboost

        data = xgboost.DMatrix(taught.inputs, label=taught.outputs, weight=taught.weights)
        fixed = {"nthread": 1, "seed": self.seed, "verbosity": 0, "tree_method": "hist"}
        return xgboost.train({**fixed, **settings}, data, num_boost_round=_NUM_ROUNDS)


class LightgbmModel(BoostedModel):
    """Boosted trees of LightGBM, grown leaf by leaf."""

    name: ClassVar[str] = "lightgbm"
    files: ClassVar[tuple[str, ...]] = ("center.txt", "low.txt", "high.txt")
    quantiles: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(
        {"objective": "quantile", "alpha": alpha, "num_leaves": 4} for alpha in _QUANTILES
    )

    @override
    def _output(self, booster: Any, queries: Queries) -> Array:
        return np.asarray(booster.predict(matrix(queries, INPUTS), num_threads=1), dtype=float)

    @override
    def _save_native(self, folder: Path) -> None:
        for booster, name in zip(self._boosters, self.files, strict=True):
            (folder / name).write_text(booster.model_to_string())

    @override
    def _read(self, path: Path) -> Any:
        import lightgbm

        try:
            return lightgbm.Booster(model_str=path.read_text())
        except lightgbm.basic.LightGBMError as error:
            raise ConfigError(f"A model of LightGBM is required, got {path}: {error}.") from error

    @override
    def _trained(self, taught: Examples, settings: Mapping[str, Any]) -> Any:
        import lightgbm

        data = lightgbm.Dataset(taught.inputs, label=taught.outputs, weight=taught.weights)
        fixed = {"num_threads": 1, "seed": self.seed, "deterministic": True, "verbosity": -1}
        every = {**fixed, "force_row_wise": True, **settings}
        return lightgbm.train(every, data, num_boost_round=_NUM_ROUNDS)
