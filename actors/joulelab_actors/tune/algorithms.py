"""Every search algorithm by its name: ours, and those of Ray Tune as strategies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ray.tune.error import TuneError
from ray.tune.schedulers import SCHEDULER_IMPORT, TrialScheduler, create_scheduler
from ray.tune.search import SEARCH_ALG_IMPORT, Searcher, create_searcher

from joulelab.errors import ConfigError, one_line
from joulelab.registry import unknown_name
from joulelab.searching.base import MakeStrategy, Strategy
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies import STRATEGIES
from joulelab_actors.tune.tune_strategy import MOST_DOUBLES, Point, TuneStrategy

_POPULATION = 20
"""Of NSGA-II; Optuna's 50 would be most of a search's trials before the first offspring."""
_DOUBLES_OF_GP = 3
"""A Gaussian process suggests again what it is sure of, and takes 0.1 s and more to do so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TuneAlgorithm:
    """An algorithm of Tune's, what it minimises, when it has no more to suggest, and on what axes.

    One that takes no places on axes takes what lies between them.
    """

    make: Callable[[list[Point], int], Searcher]
    objectives: tuple[str, ...] = ("cost",)
    most_doubles: int = MOST_DOUBLES
    takes_places: bool = True


def _optuna(sampler: str, points: list[Point], seed: int, **settings: int) -> Searcher:
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # else it announces each of its studies
    made = getattr(optuna.samplers, sampler)(seed=seed, **settings)
    return OptunaSearch(points_to_evaluate=points, sampler=made)


_NSGA2 = partial(_optuna, "NSGAIISampler", population_size=_POPULATION)
TUNE_ALGORITHMS: Mapping[str, _TuneAlgorithm] = {
    "gp": _TuneAlgorithm(make=partial(_optuna, "GPSampler"), most_doubles=_DOUBLES_OF_GP),
    "nsga2": _TuneAlgorithm(make=_NSGA2, objectives=("energy", "time")),
    "tpe": _TuneAlgorithm(make=partial(_optuna, "TPESampler")),
}
"""Algorithms of Tune's: Optuna's Gaussian process, NSGA-II and TPE."""

_OWN_PACKAGE = tuple(sorted({*SEARCH_ALG_IMPORT} - {"optuna", "random", "variant_generator"}))
"""Algorithms of Tune's that need a package besides, by Tune's names."""

_CONTINUOUS = ("bayesopt",)
_BUDGET = 100  # suggestions that ZOOpt plans for; it goes on after them

ALGORITHMS = (*STRATEGIES, *TUNE_ALGORITHMS, *_OWN_PACKAGE)
"""Names of all algorithms."""

_SCHEDULERS = {"asha": "async_hyperband", **{name: name for name in SCHEDULER_IMPORT}}


def algorithm(name: str) -> MakeStrategy:
    """Return what makes the algorithm called ``name``.

    Raises UnknownNameError if there is none; names the closest ones; ConfigError if it needs a
    package that is not installed.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    if name in TUNE_ALGORITHMS:
        return partial(_tuned, TUNE_ALGORITHMS[name])
    if name not in _OWN_PACKAGE:
        raise unknown_name("search algorithm", name, ALGORITHMS)
    make = partial(_of_own_package, name)
    make([], 0)  # the package is missing now, or not at all
    return partial(_tuned, _TuneAlgorithm(make=make, takes_places=name not in _CONTINUOUS))


def scheduler(name: str | None, most_repeats: int) -> TrialScheduler | None:
    """Return Tune's scheduler called ``name``, or asha, for so many measurements of a trial.

    Raises UnknownNameError if there is none; names the closest ones; ConfigError if it needs more
    than its name, as those do that change configurations.
    """
    if name is None:
        return None
    if name not in _SCHEDULERS:
        raise unknown_name("scheduler", name, _SCHEDULERS)
    how: dict[str, Any] = {"max_t": most_repeats, "grace_period": 1}
    try:
        made: TrialScheduler = create_scheduler(_SCHEDULERS[name], **how)
    except (TuneError, TypeError) as error:
        raise ConfigError(
            f"The scheduler {name} needs more than its name: {one_line(error)} Make it yourself "
            "and pass it to a Tuner of your own (joulelab_actors.tune.measuring)."
        ) from error
    return made


def _of_own_package(name: str, points: list[Point], seed: int) -> Searcher:
    """Make an algorithm whose names for seed and first points are its package's own.

    Raises ConfigError if the package is not installed, or not as Tune needs it.
    """
    how: dict[str, Any] = dict.fromkeys(("seed", "random_state_seed", "random_seed"), seed)
    how |= {"points_to_evaluate": points or None, "budget": _BUDGET}
    try:
        if name == "nevergrad" and find_spec(name):
            how["optimizer"] = import_module(name).optimizers.OnePlusOne
        made: Searcher = create_searcher(name, **how)
    except (AssertionError, AttributeError, ImportError) as error:
        needs = f"The algorithm {name} needs a package of its own: {one_line(error)}"
        if "UtilityFunction" in needs:  # both Tune and Nevergrad ask for it
            needs += " That left the package: pip install 'bayesian-optimization<2'."
        raise ConfigError(needs) from error
    return made


def _tuned(algorithm: _TuneAlgorithm, problem: Problem, *, seed: int = 0) -> Strategy:
    objectives = algorithm.objectives
    if len(objectives) > 1 and problem.objective.quality_exponent:
        objectives = (*objectives, "loss")
    return TuneStrategy(
        problem,
        lambda points: algorithm.make(points, seed),
        objectives=objectives,
        most_doubles=algorithm.most_doubles,
        takes_places=algorithm.takes_places,
    )
