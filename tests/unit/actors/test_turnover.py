"""When trials of Tune's end, so that their processes go on."""

import pytest
from actor_fixtures import CLOCKS_MHZ, gemm

from joulelab_actors.tune.turnover import Turnover

KEYS = [(gemm(clock), 0) for clock in CLOCKS_MHZ]


@pytest.fixture
def started():
    """Two trials that Tune has started, whose processes are not there yet."""
    turnover = Turnover()
    for key in KEYS[:2]:
        turnover.add(key)
        assert turnover.take(key[0].point.label, 4) == key
    return turnover


def test_nothing_ends_while_a_process_starts(started):
    started.note_begun(KEYS[0])
    started.hold(KEYS[0], "first", {"edp": 1.0})

    assert not started.can_release
    started.note_begun(KEYS[1])
    assert started.can_release


def test_what_follows_a_trial_in_its_process_holds_up_nobody(started):
    for key in KEYS[:2]:
        started.note_begun(key)
        started.hold(key, key[0].point.label, {})

    started.add(KEYS[2])
    assert started.release() == ("990MHz", {})
    assert started.take("third", 4) == KEYS[2]

    assert started.can_release  # of the second one, although the third has not begun
    assert started.num_live == 2


def test_what_is_started_besides_holds_up_all_until_its_process_is_there(started):
    for key in KEYS[:2]:
        started.note_begun(key)
    started.hold(KEYS[0], "first", {})
    started.add(KEYS[2])
    started.take("third", 4)

    assert not started.can_release
    assert started.note_ended("third") == KEYS[2]
    assert started.can_release
    assert started.num_live == 2


def test_a_trial_that_tune_restored_counts_as_one_of_its_own(started):
    started.note_begun(KEYS[4])
    started.note_begun(KEYS[4])

    assert started.num_live == 3


def test_where_nothing_follows_all_end(started):
    started.hold(KEYS[0], "first", {})
    started.hold(KEYS[1], "second", {})

    assert [name for name, _ in started.release_all()] == ["first", "second"]
    assert started.num_live == 0
    assert started.take("third", 4) is None
