"""What Tune takes over of the trials that the pool has measured."""

import threading

import pytest
from actor_fixtures import gemm

from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.search.backlog import Advance, Backlog

OUTCOME = Outcome(candidate=gemm(990), reason="none")


def trial(name):
    return Trial(study="s", name=name, configuration=gemm(990))


def backlog_of(*names):
    backlog = Backlog()
    for name in names:
        backlog.settle(trial(name), OUTCOME)
    return backlog


def test_trials_are_taken_over_in_the_order_in_which_they_ended():
    backlog = backlog_of("a", "b")

    taken = [backlog.take(tune_id, timeout_s=0.0) for tune_id in ("1", "2", "3")]

    assert taken == [trial("a"), trial("b"), None]


def test_a_result_is_there_until_tune_lets_go_of_it():
    """A process of Tune's that dies is followed by another, which asks once more."""
    backlog = backlog_of("a")
    backlog.take("1", timeout_s=0.0)

    again = [backlog.result("1") for _ in range(2)]
    backlog.let_go("1")

    assert again == [{"reason": "none", "capped": False}] * 2
    with pytest.raises(KeyError):
        backlog.result("1")


def test_tune_waits_for_a_trial_that_ends():
    backlog = Backlog()
    late = threading.Timer(0.05, backlog.settle, (trial("late"), OUTCOME))
    late.start()

    taken = backlog.take("1", timeout_s=60.0)

    late.join()
    assert taken == trial("late")


def test_tune_does_not_wait_for_trials_of_a_search_that_has_ended():
    backlog = backlog_of("done")
    backlog.close()

    assert not backlog.is_over
    assert backlog.take("1", timeout_s=60.0) == trial("done")
    assert backlog.is_over
    assert backlog.take("2", timeout_s=60.0) is None


def test_an_experiment_begins_with_a_trial_and_never_without_one():
    """A search of 250 trials once ended with an experiment that had none."""
    backlog = Backlog()
    late = threading.Timer(0.05, backlog.settle, (trial("late"), OUTCOME))
    late.start()

    before = backlog.wait()
    backlog.take("1", timeout_s=0.0)
    end = threading.Timer(0.05, backlog.close)
    end.start()
    after = backlog.wait()

    late.join()
    end.join()
    assert (before, after) == (True, False)


def test_it_knows_how_far_tune_has_come():
    backlog = backlog_of("a", "b", "c")
    backlog.take("1", timeout_s=0.0)
    backlog.take("2", timeout_s=0.0)
    backlog.let_go("1")
    backlog.let_go("1")

    assert backlog.advance == Advance(num_done=1, num_left=2)
