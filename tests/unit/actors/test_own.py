"""Strategies of ours as searchers of Tune's, and why a study beside a user's own Tuner ended."""

from threading import Event

import pytest
from ray.tune.search import Searcher
from search_surfaces import clock_outcome

from joulelab.errors import DeviceError
from joulelab.objectives import OBJECTIVES
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.study.events import result_of
from joulelab_actors.tune import StrategySearcher
from joulelab_actors.tune.own import _OwnStudy
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


class Queue:
    def __init__(self):
        self.is_closed = Event()

    def close(self):
        self.is_closed.set()


class Ended(_OwnStudy):
    """A study that ends for a reason of its own, if for any, once its Tuner has."""

    def __init__(self, reason):
        super().__init__(None, (), None)
        self.reason, self.queue = reason, Queue()

    def _measure(self):
        self._queue.set_result(self.queue)
        self.queue.is_closed.wait()
        if self.reason is not None:
            raise self.reason


def test_the_studys_reason_is_told_and_not_that_the_tuner_has_no_results():
    """`get_best_result()` said that no trial had reported, and the study's reason was lost."""
    gone = DeviceError("Every GPU is gone.")

    with pytest.raises(DeviceError, match="Every GPU is gone") as raised, Ended(gone).running():
        raise RuntimeError("No best trial found for the given metric: edp.")

    assert "No best trial" in str(raised.value.__cause__)


def test_an_error_of_the_users_own_is_told_where_the_study_has_none():
    with pytest.raises(RuntimeError, match="mine"), Ended(None).running():
        raise RuntimeError("mine")


def test_a_study_that_failed_is_an_error_though_the_tuner_had_results():
    with pytest.raises(DeviceError, match="gone"), Ended(DeviceError("gone")).running() as queue:
        assert not queue.is_closed.is_set()
