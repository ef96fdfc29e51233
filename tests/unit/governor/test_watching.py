"""What a governor's looks may cost."""

import pytest

from joulelab.governor.observing import JUDGED_S, Looking

BUDGET = 0.01


def bill(looking, now_s, share, spans=1):
    """Take looks that cost a share of a core over so many judged spans; return the time after."""
    for _ in range(spans):
        now_s += JUDGED_S
        looking.bill(share * JUDGED_S, now_s)
    return now_s


@pytest.fixture
def looking():
    return Looking(0.1, BUDGET, 0.0)


def test_looks_that_cost_too_much_are_taken_half_as_often_and_that_is_said(looking):
    bill(looking, bill(looking, 0.0, 0.0), 0.02)

    assert looking.period_s == 0.2
    assert "2.0 % of a core" in looking.note


def test_looks_are_taken_as_often_as_before_once_that_is_affordable(looking):
    """A moment's load of the host let a governor react half as fast for hours."""
    now_s = bill(looking, bill(looking, 0.0, 0.0), 0.02)
    bill(looking, now_s, 0.003)

    assert looking.period_s == 0.1
    assert not looking.note


def test_looks_that_would_cost_too_much_again_stay_rare(looking):
    now_s = bill(looking, bill(looking, 0.0, 0.0), 0.02)
    bill(looking, now_s, 0.006, spans=3)  # 1.2 % if taken twice as often

    assert looking.period_s == 0.2


def test_what_a_new_phase_costs_once_does_not_make_looks_rare(looking):
    now_s = bill(looking, 0.0, 0.0)
    looking.bill(0.1, now_s + 1.0)  # curves of a phase are drawn
    bill(looking, now_s, 0.003)

    assert looking.period_s == 0.1


def test_looks_are_never_more_frequent_than_asked_for(looking):
    bill(looking, 0.0, 0.0001, spans=5)

    assert looking.period_s == 0.1
