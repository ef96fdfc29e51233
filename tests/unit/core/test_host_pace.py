"""Whether others slow the core that a program runs on."""

import itertools

import pytest

from joulelab.core.clock import MonotonicClock, VirtualClock
from joulelab.core.host_pace import HostPace, python_call_s, slowed_share, undisturbed_s

CALM_S, SLOWED_S = 28e-9, 53e-9


class Stepped(MonotonicClock):
    """The machine's clock, moved by hand."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        """Return where it was moved to."""
        return self.at_s


def looked(paces_s, *, unit_s=0.05, **options):
    """Return a clock and the pace after a unit for each of ``paces_s``."""
    clock, paces = Stepped(), iter(paces_s)
    pace = HostPace(clock, look=lambda: next(paces), **options)

    def unit() -> float:
        clock.at_s += unit_s
        return 1.0

    run = pace.between(unit)
    assert [run() for _ in paces_s] == [1.0] * len(paces_s)
    return clock, pace


@pytest.mark.parametrize("num_slowed", [0, 13, 35])
def test_the_share_is_of_looks_at_which_the_core_was_slow(num_slowed):
    clock, pace = looked([CALM_S] * (40 - num_slowed) + [SLOWED_S] * num_slowed)

    assert pace.disturbed_share(0.0, clock.at_s) == pytest.approx(num_slowed / 40)


def test_a_core_is_looked_at_for_a_while():
    paces = itertools.cycle([CALM_S, CALM_S, SLOWED_S, CALM_S])

    assert slowed_share(0.02, lambda: next(paces)) == pytest.approx(0.25, abs=0.05)
    assert slowed_share(0.02, lambda: CALM_S) == 0.0


def test_what_was_seen_before_says_what_a_calm_core_is():
    clock, pace = looked([CALM_S] * 40 + [SLOWED_S] * 40)

    assert pace.disturbed_share(clock.at_s / 2 + 0.01, clock.at_s) == 1.0


def test_a_drift_of_some_percent_is_no_disturbance():
    clock, pace = looked([CALM_S * (1 + 0.15 * (number % 2)) for number in range(60)])

    assert pace.disturbed_share(0.0, clock.at_s) == 0.0


def test_of_few_looks_nothing_is_told():
    clock, pace = looked([CALM_S] * 9)

    assert pace.disturbed_share(0.0, clock.at_s) is None
    assert pace.disturbed_share(100.0, 200.0) is None


def test_short_units_are_looked_at_every_40_ms():
    times = itertools.count()
    clock = Stepped()
    pace = HostPace(clock, look=lambda: next(times) * 0.0 + CALM_S)

    def unit() -> float:
        clock.at_s += 0.001
        return 1.0

    run = pace.between(unit)
    for _ in range(2000):
        run()

    assert 45 <= next(times) <= 51


@pytest.mark.parametrize(("clock", "is_ours"), [(VirtualClock(), True), (MonotonicClock(), False)])
def test_where_this_core_sets_no_pace_nobody_looks(clock, is_ours):
    def unit() -> float:
        return 1.0

    pace = HostPace(clock, is_ours=is_ours)

    assert pace.between(unit) is unit
    assert pace.disturbed_share(0.0, 1e9) is None


def test_a_python_call_takes_nanoseconds():
    assert 1e-9 < python_call_s() < 1e-5


def test_a_single_lucky_look_sets_no_pace():
    assert undisturbed_s([CALM_S / 2] + [CALM_S] * 40) == pytest.approx(1.25 * CALM_S)
