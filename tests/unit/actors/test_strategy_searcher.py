"""Strategies of ours as searchers of Tune's."""

import pytest
from ray.tune.search import Searcher
from search_surfaces import clock_outcome

from joulelab.objectives import OBJECTIVES
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.study.outcomes import result_of
from joulelab_actors.tune import StrategySearcher
from joulelab_actors.tune.trainable import configuration_of

SPACE = SearchSpace("gemm", {"sm_clock_mhz": tuple(range(600, 1800, 60))})
PROBLEM = Problem(space=SPACE, objective=OBJECTIVES["edp"])


def searched(searcher, trials):
    """Have a searcher suggest trials one after another; returns what they were."""
    found = []
    for trial in trials:
        config = searcher.suggest(trial)
        if config == Searcher.FINISHED:
            break
        found.append(configuration_of(config)[0])
        searcher.on_trial_complete(trial, result_of(clock_outcome(found[-1])))
    return found


def test_a_strategy_is_told_what_tunes_trials_came_to():
    found = searched(StrategySearcher(PROBLEM), map(str, range(20)))

    assert found[0] == SPACE.baseline
    assert len(set(found)) == len(found) < 20
    best = min(found, key=lambda each: result_of(clock_outcome(each))["edp"])
    assert abs(best.point.sm_clock_mhz - 1200) <= 60


def test_what_was_saved_goes_on_as_if_nothing_had_happened(tmp_path):
    whole = searched(StrategySearcher(PROBLEM), map(str, range(10)))
    first, second = StrategySearcher(PROBLEM), StrategySearcher(PROBLEM)
    begun = searched(first, map(str, range(4)))

    first.save(str(tmp_path / "state"))
    second.restore(str(tmp_path / "state"))

    assert begun + searched(second, map(str, range(4, 10))) == whole


def test_what_was_under_way_is_told_once_tune_has_run_it_again(tmp_path):
    first, second = StrategySearcher(PROBLEM), StrategySearcher(PROBLEM)
    candidate = configuration_of(first.suggest("a"))[0]
    first.save(str(tmp_path / "state"))

    second.restore(str(tmp_path / "state"))
    second.on_trial_complete("a", result_of(clock_outcome(candidate)))

    assert configuration_of(second.suggest("b"))[0] != candidate


def test_a_trial_that_failed_is_told_as_failed():
    searcher = StrategySearcher(PROBLEM, "grid")
    failed = configuration_of(searcher.suggest("a"))[0]

    searcher.on_trial_complete("a", error=True)

    assert configuration_of(searcher.suggest("b"))[0] != failed


@pytest.mark.parametrize(
    ("metric", "mode", "config", "is_taken"),
    [
        (None, None, {}, True),
        ("edp", "min", {}, True),
        ("energy_j", "min", {}, False),
        ("edp", "max", {}, False),
        ("edp", "min", {"sm_clock_mhz": 990}, False),
    ],
)
def test_another_space_or_metric_than_the_problems_is_refused(metric, mode, config, is_taken):
    assert StrategySearcher(PROBLEM).set_search_properties(metric, mode, config) == is_taken
