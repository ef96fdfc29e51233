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
from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, medians
from joulelab.power_models.members.tabular import INPUTS, Examples, decoded, examples, monotone
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names

_TRUSTED = {"sklearn.tree._tree.Tree"}
"""Types that skops does not know and that are nothing but numbers."""
_NUM_ROUNDS = 100
_MOST_IN_LEAF = 20  # the default of LightGBM
_LEAVES = 20
"""Leaves that a table allows at least: of 40 runs, a leaf of 20 is half of them."""


class TreesModel(PowerModel):
    """A table of inputs and outputs behind a library's own trees, kept in its own format."""

    file: ClassVar[str]
    """Name of the file that the library writes."""

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._trees = self._trained(examples(queries, values, self.target))
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return decoded(queries, self._outputs(matrix(queries, INPUTS)), self.target)

    @override
    def _load_native(self, folder: Path) -> None:
        self._trees = self._read(folder / self.file)

    @abstractmethod
    def _trained(self, taught: Examples) -> Any:
        """Train the trees."""

    @abstractmethod
    def _outputs(self, inputs: Array) -> Array:
        """Return what the trees put out, shape ``(n,)``."""

    @abstractmethod
    def _read(self, path: Path) -> Any:
        """Read the trees."""


class RandomForestModel(TreesModel):
    """The mean of a hundred trees of scikit-learn."""

    name: ClassVar[str] = "random_forest"
    learned_arrays: ClassVar[tuple[str, ...]] = ("typical",)
    file: ClassVar[str] = "trees.skops"

    @override
    def _trained(self, taught: Examples) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        self._typical = medians(taught.inputs, 0.0)
        forest = RandomForestRegressor(random_state=self.seed, n_jobs=1)
        inputs = filled(taught.inputs, self._typical)
        return forest.fit(inputs, taught.outputs, sample_weight=taught.weights)

    @override
    def _outputs(self, inputs: Array) -> Array:
        # One by one: the forest's own predict takes longer to share them out among threads.
        inputs = filled(inputs, self._typical).astype(np.float32)
        each = [tree.tree_.predict(inputs)[:, 0] for tree in self._trees.estimators_]
        return np.asarray(np.mean(each, axis=0))

    @override
    def _save_native(self, folder: Path) -> None:
        import skops.io

        skops.io.dump(self._trees, folder / self.file)

    @override
    def _read(self, path: Path) -> Any:
        import skops.io

        unknown = set(skops.io.get_untrusted_types(file=path)) - _TRUSTED
        if unknown:
            raise ConfigError(
                f"A file with nothing but a forest is required, {path} holds {sorted(unknown)}; "
                "do not load it."
            )
        return skops.io.load(path, trusted=sorted(_TRUSTED))


class XgboostModel(TreesModel):
    """Boosted trees of XGBoost, none of which lets power fall as the clock rises."""

    name: ClassVar[str] = "xgboost"
    file: ClassVar[str] = "booster.ubj"

    @override
    def _trained(self, taught: Examples) -> Any:
        import xgboost

        data = xgboost.DMatrix(taught.inputs, label=taught.outputs, weight=taught.weights)
        settings = {"nthread": 1, "seed": self.seed, "verbosity": 0, "tree_method": "hist"}
        rising = {"monotone_constraints": tuple(monotone(self.target))}
        return xgboost.train({**settings, **rising}, data, num_boost_round=_NUM_ROUNDS)

    @override
    def _outputs(self, inputs: Array) -> Array:
        return np.asarray(self._trees.inplace_predict(inputs), dtype=float)

    @override
    def _save_native(self, folder: Path) -> None:
        self._trees.save_model(folder / self.file)

    @override
    def _read(self, path: Path) -> Any:
        import xgboost

        booster = xgboost.Booster(params={"nthread": 1})
        booster.load_model(path)
        return booster


class LightgbmModel(TreesModel):
    """Boosted trees of LightGBM, grown leaf by leaf, likewise."""

    name: ClassVar[str] = "lightgbm"
    file: ClassVar[str] = "booster.txt"

    @override
    def _trained(self, taught: Examples) -> Any:
        import lightgbm

        num_rows = len(taught.outputs)
        settings: Mapping[str, Any] = {
            "num_threads": 1,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            "monotone_constraints": tuple(monotone(self.target)),
            "min_data_in_leaf": max(1, min(_MOST_IN_LEAF, num_rows // _LEAVES)),
        }
        data = lightgbm.Dataset(taught.inputs, label=taught.outputs, weight=taught.weights)
        return lightgbm.train({**settings}, data, num_boost_round=_NUM_ROUNDS)

    @override
    def _outputs(self, inputs: Array) -> Array:
        return np.asarray(self._trees.predict(inputs, num_threads=1), dtype=float)

    @override
    def _save_native(self, folder: Path) -> None:
        (folder / self.file).write_text(self._trees.model_to_string())

    @override
    def _read(self, path: Path) -> Any:
        import lightgbm

        try:
            return lightgbm.Booster(model_str=path.read_text())
        except lightgbm.basic.LightGBMError as error:
            raise ConfigError(f"A model of LightGBM is required, got {path}: {error}.") from error
