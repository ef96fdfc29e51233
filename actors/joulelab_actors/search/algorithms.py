"""Every search algorithm by its name: ours, and those of Ray Tune."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.search import Searcher

from joulelab.registry import unknown_name
from joulelab.search.base import Strategy
from joulelab.search.evidence import Problem
from joulelab.search.strategies import STRATEGIES
from joulelab_actors.search.tune_strategy import MOST_DOUBLES, Point, TuneStrategy

_POPULATION = 20
"""Of NSGA-II; Optuna's 50 would be most of a search's trials before the first offspring."""
_DOUBLES_OF_GP = 3
"""A Gaussian process suggests again what it is sure of, and takes 0.1 s and more to do so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TuneAlgorithm:
    """An algorithm of Tune's, what it minimises, and when it has no more to suggest."""

    make: Callable[[list[Point], int], Searcher]
    objectives: tuple[str, ...]
    most_doubles: int = MOST_DOUBLES


def _tpe(points: list[Point], seed: int) -> Searcher:
    from optuna.samplers import TPESampler

    return _optuna(points, TPESampler(seed=seed))


def _gp(points: list[Point], seed: int) -> Searcher:
    from optuna.samplers import GPSampler

    return _optuna(points, GPSampler(seed=seed))


def _nsga2(points: list[Point], seed: int) -> Searcher:
    from optuna.samplers import NSGAIISampler

    return _optuna(points, NSGAIISampler(seed=seed, population_size=_POPULATION))


def _optuna(points: list[Point], sampler: Any) -> Searcher:
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # else it announces each of its studies
    return OptunaSearch(points_to_evaluate=points, sampler=sampler)


TUNE_ALGORITHMS: Mapping[str, _TuneAlgorithm] = {
    "gp": _TuneAlgorithm(make=_gp, objectives=("cost",), most_doubles=_DOUBLES_OF_GP),
    "nsga2": _TuneAlgorithm(make=_nsga2, objectives=("energy", "time")),
    "tpe": _TuneAlgorithm(make=_tpe, objectives=("cost",)),
}
"""Algorithms of Tune's: Optuna's Gaussian process, NSGA-II and TPE."""

ALGORITHMS = (*STRATEGIES, *TUNE_ALGORITHMS)
"""Names of all algorithms."""


def strategy_of(name: str, problem: Problem, *, seed: int = 0) -> Strategy:
    """Make the algorithm called ``name`` for ``problem``.

    Raises:
        UnknownNameError: If there is none; names the closest ones.
    """
    if name in STRATEGIES:
        make_ours: Any = STRATEGIES[name]
        ours: Strategy = make_ours(problem, seed=seed)
        return ours
    if name not in TUNE_ALGORITHMS:
        raise unknown_name("search algorithm", name, ALGORITHMS)
    algorithm = TUNE_ALGORITHMS[name]
    objectives = algorithm.objectives
    if len(objectives) > 1 and problem.goal.quality_exponent:
        objectives = (*objectives, "loss")
    return TuneStrategy(
        problem,
        lambda points: algorithm.make(points, seed),
        objectives=objectives,
        most_doubles=algorithm.most_doubles,
    )
