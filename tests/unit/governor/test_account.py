"""How much of the slowdown limit is left to a phase."""

import pytest

from joulelab.core.device import Activity, EventReason
from joulelab.governor.account import Account
from joulelab.governor.observing import Observation


def window(start_s):
    return Observation(
        start_s=start_s,
        stop_s=start_s + 1.0,
        power_w=200.0,
        activity=Activity(),
        sm_clock_mhz=1200.0,
        least_clock_mhz=1200.0,
        is_settled=True,
        reasons=EventReason.NONE,
    )


@pytest.fixture
def account():
    """A minute: 24 s of phase 1 at full speed, 30 at 0.9 of it, 6 of transitions at 0.5."""
    account = Account()
    for second in range(60):
        phase = (1, 2, 2, 1, 2)[second % 5] if second < 50 else None if second < 56 else 1
        account.add(window(float(second)), {1: 1.0, 2: 0.9, None: 0.5}[phase], phase)
    return account


def test_slowdown_is_all_time_over_all_work(account):
    assert account.slowdown == pytest.approx(60.0 / (24.0 + 27.0 + 3.0) - 1)


def test_a_phase_has_its_share_of_the_work_and_what_is_lost_beside_it(account):
    assert account.beside(1) == pytest.approx((24.0 / 54.0, (3.0 + 3.0) / 54.0))
    assert account.beside(2) == pytest.approx((27.0 / 54.0, 3.0 / 54.0))


def test_shares_and_losses_add_up_to_the_slowdown(account):
    share, beside = account.beside(2)

    assert share * (1 / 0.9 - 1) + beside == pytest.approx(account.slowdown)


def test_what_is_older_than_a_minute_is_forgotten(account):
    for second in range(60, 125):
        account.add(window(float(second)), 0.8, 3)

    assert account.slowdown == pytest.approx(0.25)
    assert account.beside(3) == pytest.approx((1.0, 0.0))
    assert account.beside(1) == pytest.approx((0.0, 0.25))


def test_until_it_holds_enough_a_phase_is_taken_for_all_of_the_load():
    account = Account()
    for second in range(10):
        account.add(window(float(second)), 0.9, second % 2)

    assert account.beside(1) == (1.0, 0.0)
