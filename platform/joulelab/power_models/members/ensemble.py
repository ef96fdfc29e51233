"""The geometric mean of members of different kinds.

All weigh the same: with some twenty applications, weights that are learned lose more by their own
error than they gain (the forecast combination puzzle, Stock and Watson 2004).
"""

import copy
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.domain import TrainingDomain
from joulelab.power_models.members.bayesian import BayesianModel
from joulelab.power_models.members.lightgbm_trees import LightgbmModel
from joulelab.power_models.members.meta import MetaModel
from joulelab.power_models.members.random_forest import RandomForestModel
from joulelab.power_models.members.spread import SpreadModel
from joulelab.power_models.members.xgboost_trees import XgboostModel
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names, Runs
from joulelab.power_models.state import State

MEMBERS: tuple[type[PowerModel], ...] = (
    BayesianModel,
    LightgbmModel,
    MetaModel,
    RandomForestModel,
    XgboostModel,
)


class EnsembleModel(SpreadModel):
    """The mean of the logarithms of two laws and three kinds of trees.

    Each takes anchors in its own way. The spread is that between the members.
    """

    name: ClassVar[str] = "ensemble"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        domain = TrainingDomain.of(queries)
        self.members: list[PowerModel] = []
        for kind in MEMBERS:
            member = kind(self.target, seed=self.seed, calibration_folds=0)
            member.learn(queries, values, groups)
            member._domain = domain  # noqa: SLF001 - fit() takes runs, which no member sees
            self.members.append(member)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return np.asarray(np.exp(self._logs(queries).mean(axis=0)))

    @override
    def spread(self, queries: Queries) -> Array:
        return np.asarray(self._logs(queries).std(axis=0))

    @override
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model whose members know some measured points; see ``PowerModel.adapt``."""
        adapted = copy.copy(self)
        adapted.members = [each.adapt(anchors, profiled=profiled) for each in self.members]
        return super(EnsembleModel, adapted).adapt(anchors, profiled=profiled)

    @override
    def _state(self) -> State:
        return State()

    @override
    def _restore(self, state: State) -> None:
        """Everything is in the members' own folders."""

    @override
    def _save_native(self, folder: Path) -> None:
        for member in self.members:
            member.save(folder / member.name)

    @override
    def _load_native(self, folder: Path) -> None:
        self.members = [kind.load(folder / kind.name) for kind in MEMBERS]

    def _logs(self, queries: Queries) -> Array:
        """Return the logarithm of each member's answer, shape ``(members, n)``."""
        return np.array(
            [
                np.log(member.answer(queries)) + member.corrections.log_factor(queries)
                for member in self.members
            ]
        )
