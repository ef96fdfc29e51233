"""Algorithms of Tune's as strategies, and strategies as algorithms of Tune's."""

import sys
from importlib.util import find_spec
from types import ModuleType

import pytest
from optuna.samplers import TPESampler
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch
from search_surfaces import clock_outcome

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome, cost_of
from joulelab.searching.constraints import Constraint
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies import STRATEGIES
from joulelab_actors.tune.algorithms import ALGORITHMS, TUNE_ALGORITHMS, algorithm, scheduler
from joulelab_actors.tune.tune_strategy import TuneStrategy

CLOCKS_MHZ = tuple(range(600, 1800, 60))
SPACE = SearchSpace("gemm", {"sm_clock_mhz": CLOCKS_MHZ, "precision": ("fp16", "bf16")})
PROBLEM = Problem(space=SPACE, objective=OBJECTIVES["edp"])


def searched(strategy, num_trials, *, ahead=1):
    """Let a strategy search with so many trials out at once; returns what it asked for."""
    asked, out = [], []
    while len(asked) < num_trials and not strategy.is_done:
        while len(out) < ahead and (candidate := strategy.ask()) is not None:
            asked.append(candidate)
            out.append(candidate)
        if not out:
            break
        strategy.tell(clock_outcome(out.pop(0)))
    return asked


LEAST = {"gp": 12, "nsga2": 30, "tpe": 30}  # a Gaussian process ends when it is sure


@pytest.mark.parametrize("name", TUNE_ALGORITHMS)
def test_an_algorithm_of_tunes_begins_with_the_baseline_and_asks_for_nothing_twice(name):
    asked = searched(algorithm(name)(PROBLEM), 30, ahead=4)

    assert asked[0] == SPACE.baseline
    assert len(asked) >= LEAST[name]
    assert len(set(asked)) == len(asked)
    assert set(asked) <= set(SPACE)


@pytest.mark.parametrize("name", TUNE_ALGORITHMS)
def test_an_algorithm_of_tunes_does_the_same_for_the_same_seed_and_outcomes(name):
    first, second = (searched(algorithm(name)(PROBLEM, seed=3), 15) for _ in range(2))

    assert first == second


@pytest.mark.parametrize("name", ["gp", "tpe"])
def test_an_algorithm_of_tunes_ends_near_the_optimum(name):
    asked = searched(algorithm(name)(PROBLEM, seed=1), 25)

    best = min(asked, key=lambda each: cost_of(PROBLEM.objective, clock_outcome(each).figures).log)
    assert abs(best.point.sm_clock_mhz - 1200) <= 60


def test_a_space_that_is_measured_whole_ends_the_search():
    space = SearchSpace("gemm", {"sm_clock_mhz": (990, 810, 630)})
    strategy = algorithm("tpe")(Problem(space=space, objective=OBJECTIVES["edp"]))

    asked = searched(strategy, 100, ahead=2)

    assert set(asked) == set(space)
    assert strategy.is_done


def test_what_was_told_before_the_first_suggestion_is_not_asked_for_and_is_learnt_from():
    told = [each for each in SPACE if each.point.sm_clock_mhz in CLOCKS_MHZ[::2]]
    seen = []

    class Spy(Searcher):
        def __init__(self, points):
            super().__init__()
            self._points = list(points)

        def set_search_properties(self, metric, mode, config, **spec):
            return True

        def suggest(self, trial_id):
            return self._points.pop(0) if self._points else self.FINISHED

        def on_trial_complete(self, trial_id, result=None, error=False):
            seen.append(result["cost"])

    strategy = TuneStrategy(PROBLEM, Spy)
    for candidate in [SPACE.baseline, *told]:
        strategy.tell(clock_outcome(candidate))

    assert strategy.ask() is None
    assert sorted(seen) == pytest.approx(
        sorted(cost_of(PROBLEM.objective, clock_outcome(each).figures).log for each in told)
    )


def test_an_infeasible_configuration_costs_more_than_every_feasible_one():
    bounded = Problem(
        space=SPACE,
        objective=OBJECTIVES["energy"],
        constraints=(Constraint(quantity="slowdown", bound=0.25),),
    )
    strategy = algorithm("tpe")(bounded)
    searched(strategy, 30)

    results = {
        each: strategy._result(each)["cost"]
        for each in strategy.evidence.measured
        if each.point.sm_clock_mhz is not None
    }
    feasible = [v for k, v in results.items() if strategy.evidence.judgement(k).is_feasible]
    others = [v for k, v in results.items() if not strategy.evidence.judgement(k).is_feasible]

    assert feasible
    assert others
    assert max(feasible) < min(others)


def test_a_failed_trial_is_told_as_failed_and_the_search_goes_on():
    strategy = algorithm("tpe")(PROBLEM)
    strategy.tell(clock_outcome(strategy.ask()))
    failed = strategy.ask()

    strategy.tell(Outcome(candidate=failed, reason="no luck"))

    assert strategy.ask() not in {None, failed}


@pytest.mark.parametrize("name", [*STRATEGIES, *TUNE_ALGORITHMS])
def test_every_algorithm_can_be_had_by_its_name(name):
    assert algorithm(name)(PROBLEM).ask() in SPACE


@pytest.mark.skipif(find_spec("hyperopt") is not None, reason="HyperOpt is installed.")
def test_an_algorithm_whose_package_is_missing_says_which():
    assert "hyperopt" in ALGORITHMS
    with pytest.raises(ConfigError, match="pip install hyperopt"):
        algorithm("hyperopt")


def test_a_package_that_is_too_new_for_tune_says_which_version_it_takes(monkeypatch):
    """It was a traceback of Tune's."""
    monkeypatch.setitem(sys.modules, "bayes_opt", ModuleType("bayes_opt"))
    monkeypatch.setattr("ray.tune.search.bayesopt.bayesopt_search.byo", sys.modules["bayes_opt"])

    with pytest.raises(ConfigError, match=r"pip install 'bayesian-optimization<2'"):
        algorithm("bayesopt")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # BOHB's, of ConfigSpace
@pytest.mark.parametrize(
    ("name", "package"),
    [("bayesopt", "bayes_opt"), ("bohb", "hpbandster"), ("hyperopt", "hyperopt"),
     ("nevergrad", "nevergrad"), ("zoopt", "zoopt")],
)  # fmt: skip
def test_an_algorithm_of_another_package_searches_as_any_other(name, package):
    """Nevergrad was made without an optimizer, BayesOpt refused whole numbers."""
    pytest.importorskip(package)

    asked = searched(algorithm(name)(PROBLEM, seed=1), 25, ahead=2)

    assert asked[0] == SPACE.baseline
    assert len(set(asked)) == len(asked) > 5


def test_an_algorithm_that_takes_no_whole_numbers_chooses_between_them():
    def make(points):
        return OptunaSearch(points_to_evaluate=points, sampler=TPESampler(seed=1))

    asked = searched(TuneStrategy(PROBLEM, make, takes_places=False), 25)
    again = TuneStrategy(PROBLEM, make, takes_places=False)
    for each in asked[1:]:
        again.tell(clock_outcome(each))

    assert len(set(asked)) == len(asked) == 25
    assert set(searched(again, 10)).isdisjoint(asked[1:])


@pytest.mark.parametrize("name", ["asha", "median_stopping_rule"])
def test_a_scheduler_of_tunes_can_be_had_by_its_name(name):
    assert isinstance(scheduler(name, 5), TrialScheduler)


@pytest.mark.parametrize("name", ["pbt", "pb2", "pbt_replay"])
def test_a_scheduler_that_needs_more_than_its_name_is_refused_in_words(name):
    """It was a traceback of Tune's."""
    with pytest.raises(ConfigError, match=f"{name} needs more than its name"):
        scheduler(name, 5)


def test_an_unknown_scheduler_is_refused_with_the_closest_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'asha'"):
        scheduler("ash", 5)


def test_an_unknown_algorithm_is_refused_with_the_closest_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'nsga2'"):
        algorithm("nsga")
