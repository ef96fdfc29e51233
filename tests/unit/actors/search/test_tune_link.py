"""How long a search waits for Ray Tune at its end, and what it says of that."""

import pytest

from joulelab_actors.search.backlog import Advance
from joulelab_actors.search.tune_link import QUIET_S, STALL_S, Lag


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_tune_may_take_any_time_as_long_as_it_advances(clock):
    """A fixed limit once left a search of a thousand trials without most of Tune's tables."""
    lag = Lag(STALL_S, clock)

    for num_done in range(50):
        lag.note(Advance(num_done=num_done, num_left=50 - num_done))
        clock.now_s += 0.9 * STALL_S

        assert lag.trouble is None


def test_tune_that_stands_still_is_ended_with_what_it_lacks(clock):
    lag = Lag(STALL_S, clock)
    lag.note(Advance(num_done=3, num_left=7))
    clock.now_s += 0.6 * STALL_S
    lag.note(Advance(num_done=3, num_left=7))
    clock.now_s += 0.6 * STALL_S

    assert "stood still for 120 s" in lag.trouble
    assert "7 trials behind" in lag.trouble


def test_tune_that_never_answers_is_ended_too(clock):
    lag = Lag(STALL_S, clock)

    clock.now_s += 1.1 * STALL_S

    assert "stood still" in lag.trouble


def test_a_short_wait_is_not_worth_telling(clock):
    lag = Lag(STALL_S, clock)
    lag.note(Advance(num_done=0, num_left=9))
    clock.now_s += 0.9 * QUIET_S
    short = lag.is_worth_telling

    clock.now_s += 0.2 * QUIET_S
    long = lag.is_worth_telling
    lag.note(Advance(num_done=9, num_left=0))

    assert (short, long, lag.is_worth_telling) == (False, True, False)
