"""Samplers of Optuna as search strategies, to compare with."""

from collections import defaultdict

import optuna
from optuna.trial import TrialState
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.searching.base import Outcome, Strategy, cost_of
from joulelab.searching.evidence import Problem


class OptunaSearch(Strategy):
    """A sampler of Optuna on the axes of a space.

    Args:
        problem: What is searched for.
        sampler: Name of the sampler's class.
        seed: Of the sampler.
    """

    def __init__(self, problem: Problem, sampler: str, *, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        settings = {"population_size": 20} if sampler == "NSGAIISampler" else {}
        made = getattr(optuna.samplers, sampler)(seed=seed, **settings)
        self._study = optuna.create_study(sampler=made)
        self._problem = problem
        self._grid = {problem.space.values(each): each for each in list(problem.space)[1:]}
        self._out: dict[Configuration, list[int]] = defaultdict(list)

    @override
    def ask(self) -> Configuration:
        trial = self._study.ask()
        values = []
        for name, choices in self._problem.space.axes.items():
            if name == "precision":
                values.append(trial.suggest_categorical(name, choices))
            else:
                values.append(sorted(choices)[trial.suggest_int(name, 0, len(choices) - 1)])
        configuration = self._grid[tuple(values)]
        self._out[configuration].append(trial.number)
        return configuration

    @override
    def tell(self, outcome: Outcome) -> None:
        number = self._out[outcome.candidate].pop()
        if outcome.figures is None:
            self._study.tell(number, state=TrialState.FAIL)
        else:
            self._study.tell(number, cost_of(self._problem.objective, outcome.figures).log)

    @property
    @override
    def is_done(self) -> bool:
        return False
