"""What a governor's looks may cost."""

import pytest

from joulelab.governor.attention import JUDGED_S, Looking

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
    for _ in range(5):
        now_s = bill(looking, now_s, 0.0018 / looking.period_s)  # 1.8 % at ten a second

    assert looking.period_s == pytest.approx(0.2, abs=0.03)


def test_looks_become_brief_before_they_become_rare_and_whole_again_once_that_is_affordable():
    """Looks at an H200, 3.3 ms each, were 0.42 s apart to keep within 1 % of a core."""
    looking = Looking(0.1, BUDGET, 0.0, may_be_brief=True)
    now_s = bill(looking, bill(looking, 0.0, 0.0), 0.033)
    assert looking.are_brief
    for cost_s in (0.0033, 0.0007):  # of a look that is whole, once on a busy host
        for number in range(1, 201):
            whole = number % 10 == 0
            looking.bill(cost_s if whole else 0.0006, now_s + number / 10, is_brief=not whole)
        now_s += JUDGED_S
        assert looking.are_brief is (cost_s == 0.0033)

    assert looking.period_s == 0.1
    assert not looking.note


def test_what_a_new_phase_costs_once_does_not_make_looks_rare(looking):
    now_s = bill(looking, 0.0, 0.0)
    looking.bill(0.1, now_s + 1.0)  # curves of a phase are drawn
    bill(looking, now_s, 0.003)

    assert looking.period_s == 0.1


def test_looks_are_never_more_frequent_than_asked_for(looking):
    bill(looking, 0.0, 0.0001, spans=5)

    assert looking.period_s == 0.1
