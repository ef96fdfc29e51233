"""What metering costs a program whose times are known."""

from contextlib import contextmanager
from random import Random

import pytest

from joulelab.core.clock import VirtualClock
from joulelab.sampling.spells import LONGEST_S, NUM_PAIRS, SPELL_S, MeteringCost, metering_cost


class Loop:
    """A program that drifts, and is slower while it is metered."""

    def __init__(self, slowdown, drift):
        self.clock = VirtualClock()
        self._slowdown, self._drift, self._factor = slowdown, drift, 1.0

    @contextmanager
    def metered(self):
        self._factor = 1 + self._slowdown
        yield
        self._factor = 1.0

    def run(self):
        self.clock.sleep_s(0.01 * self._factor * (1 + self._drift * self.clock.now_s()))
        return 2.0


@pytest.mark.parametrize("slowdown", [0.0, 0.01, 0.05])
def test_a_slowdown_is_found_within_its_interval_though_the_pace_drifts(slowdown):
    loop = Loop(slowdown, drift=0.001)

    cost = metering_cost(loop.clock, loop.run, loop.metered)

    assert len(cost.pairs) == NUM_PAIRS
    assert cost.slowdown.value == pytest.approx(slowdown, abs=5e-4)
    assert not cost.slowdown.excludes(slowdown)
    assert cost.is_known


def test_a_scatter_that_hides_it_is_said_and_no_number():
    cost = MeteringCost(pairs=((1.0, 1.1), (1.2, 1.0), (1.0, 1.0), (1.1, 1.3)))

    assert not cost.is_known


@pytest.mark.parametrize(
    ("scatter", "longest_s", "is_known"),
    [(0.06, LONGEST_S, True), (0.5, LONGEST_S, False), (0.1, 120.0, True)],
)
def test_spells_go_on_where_the_pace_scatters_until_they_tell_or_take_too_long(
    scatter, longest_s, is_known
):
    loop, random = Loop(0.01, drift=0.0), Random(0)

    def run():
        loop.clock.sleep_s(0.2 * random.gauss(0.0, scatter) ** 2)
        return loop.run()

    cost = metering_cost(loop.clock, run, loop.metered, longest_s)

    assert cost.is_known == is_known
    assert len(cost.pairs) > NUM_PAIRS
    assert (loop.clock.now_s() >= longest_s) != is_known
    assert loop.clock.now_s() < longest_s + 10 * SPELL_S


def test_a_program_of_long_units_is_compared_often_enough_to_tell_its_scatter():
    loop, random = Loop(0.0, drift=0.0), Random(0)

    def run():
        loop.clock.sleep_s(random.uniform(5.0, 15.0))
        return 1.0

    assert len(metering_cost(loop.clock, run, loop.metered).pairs) == NUM_PAIRS


def test_a_program_of_even_pace_takes_the_same_time_per_unit_in_every_spell():
    """Calls of 10 ms do two units of work each."""
    loop = Loop(slowdown=0.1, drift=0.0)

    cost = metering_cost(loop.clock, loop.run, loop.metered)

    for metered_s, bare_s in cost.pairs:
        assert metered_s == pytest.approx(0.0055)
        assert bare_s == pytest.approx(0.005)
