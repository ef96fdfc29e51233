"""A random forest (Breiman 2001) of scikit-learn, with its default settings."""

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import skops.io
from sklearn.ensemble import RandomForestRegressor
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.power_models.features import filled, matrix
from joulelab.power_models.members.spread import SpreadModel
from joulelab.power_models.members.tabular import (
    INPUTS,
    decoded,
    examples,
    log_decoded,
    typical,
)
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

_FILE = "forest.skops"
_TRUSTED = {"sklearn.tree._tree.Tree"}
"""Types that skops does not know and that are nothing but numbers."""


class RandomForestModel(SpreadModel):
    """The mean of a hundred trees; its spread is that between them."""

    name: ClassVar[str] = "random_forest"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        taught = examples(queries, values, self.target)
        self._typical = typical(taught.inputs)
        forest = RandomForestRegressor(random_state=self.seed, n_jobs=1)
        inputs = filled(taught.inputs, self._typical)
        self._forest: Any = forest.fit(inputs, taught.outputs, sample_weight=taught.weights)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return decoded(queries, self._trees(queries).mean(axis=0), self.target)

    @override
    def spread(self, queries: Queries) -> Array:
        return np.asarray(log_decoded(queries, self._trees(queries), self.target).std(axis=0))

    @override
    def _state(self) -> State:
        return State(arrays={"typical": self._typical})

    @override
    def _restore(self, state: State) -> None:
        self._typical = state.arrays["typical"]

    @override
    def _save_native(self, folder: Path) -> None:
        skops.io.dump(self._forest, folder / _FILE)

    @override
    def _load_native(self, folder: Path) -> None:
        unknown = set(skops.io.get_untrusted_types(file=folder / _FILE)) - _TRUSTED
        if unknown:
            raise ConfigError(
                f"A file with nothing but a forest is required, {folder / _FILE} holds "
                f"{sorted(unknown)}; do not load it."
            )
        self._forest = skops.io.load(folder / _FILE, trusted=sorted(_TRUSTED))

    def _trees(self, queries: Queries) -> Array:
        """Return the output of each tree, shape ``(trees, n)``.

        The trees are asked one by one: the forest's own ``predict`` takes longer to share them
        out among threads than they take to answer.
        """
        inputs = filled(matrix(queries, INPUTS), self._typical).astype(np.float32)
        return np.array([tree.tree_.predict(inputs)[:, 0] for tree in self._forest.estimators_])
