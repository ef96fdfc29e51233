"""Algorithms of Tune's as strategies, and strategies as algorithms of Tune's."""

from math import log

import pytest
from actor_fixtures import gemm
from ray.tune.search import Searcher
from scripted_strategy import Scripted

from joulelab.errors import UnknownNameError
from joulelab.search.base import Figures, Outcome
from joulelab.search.constraints import Constraint
from joulelab.search.evidence import Problem
from joulelab.search.goal import goal_of
from joulelab.search.space import SearchSpace
from joulelab_actors.search.algorithms import ALGORITHMS, TUNE_ALGORITHMS, strategy_of
from joulelab_actors.search.outcomes import result_of
from joulelab_actors.search.strategy_searcher import StrategySearcher
from joulelab_actors.search.tune_strategy import TuneStrategy

CLOCKS_MHZ = tuple(range(600, 1800, 60))
SPACE = SearchSpace("gemm", {"sm_clock_mhz": CLOCKS_MHZ, "precision": ("fp16", "bf16")})
PROBLEM = Problem(space=SPACE, goal=goal_of("edp"))


def outcome(candidate):
    """Energy x delay is lowest at 1200 MHz; the driver's own clock is the highest."""
    clock = (candidate.point.sm_clock_mhz or 1800) / 1200
    slower = 1.1 if dict(candidate.knobs)["precision"] == "fp16" else 1.0
    figures = Figures(
        energy_j=slower * (1 + log(clock) ** 2) * clock,
        energy_u_j=0.001,
        time_s=1 / clock,
        time_u_s=0.0001,
        power_w=300.0,
        board="a",
    )
    return Outcome(candidate=candidate, figures=figures)


def searched(strategy, num_trials, *, ahead=1):
    """Let a strategy search with so many trials out at once; returns what it asked for."""
    asked, out = [], []
    while len(asked) < num_trials and not strategy.is_done:
        while len(out) < ahead and (candidate := strategy.ask()) is not None:
            asked.append(candidate)
            out.append(candidate)
        if not out:
            break
        strategy.tell(outcome(out.pop(0)))
    return asked


LEAST = {"gp": 12, "nsga2": 30, "tpe": 30}  # a Gaussian process ends when it is sure


@pytest.mark.parametrize("name", TUNE_ALGORITHMS)
def test_an_algorithm_of_tunes_begins_with_the_baseline_and_asks_for_nothing_twice(name):
    asked = searched(strategy_of(name, PROBLEM), 30, ahead=4)

    assert asked[0] == SPACE.baseline
    assert len(asked) >= LEAST[name]
    assert len(set(asked)) == len(asked)
    assert set(asked) <= set(SPACE)


@pytest.mark.parametrize("name", TUNE_ALGORITHMS)
def test_an_algorithm_of_tunes_does_the_same_for_the_same_seed_and_outcomes(name):
    first, second = (searched(strategy_of(name, PROBLEM, seed=3), 15) for _ in range(2))

    assert first == second


@pytest.mark.parametrize("name", ["gp", "tpe"])
def test_an_algorithm_of_tunes_ends_near_the_optimum(name):
    asked = searched(strategy_of(name, PROBLEM, seed=1), 25)

    best = min(asked, key=lambda each: PROBLEM.goal.cost(outcome(each).figures).log)
    assert abs(best.point.sm_clock_mhz - 1200) <= 60


def test_a_space_that_is_measured_whole_ends_the_search():
    space = SearchSpace("gemm", {"sm_clock_mhz": (990, 810, 630)})
    strategy = strategy_of("tpe", Problem(space=space, goal=goal_of("edp")))

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
        strategy.tell(outcome(candidate))

    assert strategy.ask() is None
    assert sorted(seen) == pytest.approx(
        sorted(PROBLEM.goal.cost(outcome(each).figures).log for each in told)
    )


def test_an_infeasible_configuration_costs_more_than_every_feasible_one():
    bounded = Problem(
        space=SPACE,
        goal=goal_of("energy"),
        constraints=(Constraint(quantity="slowdown", bound=0.25),),
    )
    strategy = strategy_of("tpe", bounded)
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
    strategy = strategy_of("tpe", PROBLEM)
    strategy.tell(outcome(strategy.ask()))
    failed = strategy.ask()

    strategy.tell(Outcome(candidate=failed, reason="no luck"))

    assert strategy.ask() not in {None, failed}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_can_be_had_by_its_name(name):
    assert strategy_of(name, PROBLEM).ask() in SPACE


def test_an_unknown_algorithm_is_refused_with_the_closest_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'nsga2'"):
        strategy_of("nsga", PROBLEM)


def test_a_strategy_is_a_searcher_of_tunes():
    candidates = [gemm(990), gemm(810)]
    strategy = Scripted(candidates, max_out=1)
    searcher = StrategySearcher(strategy)

    first = searcher.suggest("a")
    assert searcher.suggest("b") is None
    told = outcome(SPACE.baseline).figures
    searcher.on_trial_complete("a", result_of(Outcome(candidate=candidates[0], figures=told)))
    second = searcher.suggest("b")
    searcher.on_trial_complete("b", error=True)

    assert [first["sm_clock_mhz"], second["sm_clock_mhz"]] == [990, 810]
    assert searcher.suggest("c") == Searcher.FINISHED
    assert strategy.told[0] == Outcome(candidate=candidates[0], figures=told)
    assert strategy.told[1].figures is None
