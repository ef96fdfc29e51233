"""Where ticks can lie by the few that were timed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.sampling.lattice import Bracket, TickLattice

PERIOD_S = 0.1


def around(number, before_s, after_s):
    """A bracket that holds a tick of a strict period."""
    return Bracket(number * PERIOD_S - before_s, number * PERIOD_S + after_s)


edges_s = st.floats(0.0, 0.02)


@given(
    timed=st.lists(st.tuples(st.integers(2, 40), edges_s, edges_s), max_size=8),
    number=st.integers(-10, 60),
)
def test_every_tick_lies_where_the_lattice_says_those_before_the_first_too(timed, number):
    lattice = TickLattice(around(0, 0.004, 0.003), around(1, 0.002, 0.005))
    for known, before_s, after_s in sorted(timed):
        lattice.learn(known, around(known, before_s, after_s))

    window = lattice.window(number)

    assert window.earliest_s <= number * PERIOD_S + 1e-9
    assert window.latest_s >= number * PERIOD_S - 1e-9


def test_a_tick_lies_as_far_on_as_the_shortest_and_the_longest_period_allow():
    """Brackets of 10 ms, 100 ms apart, leave periods of 90 to 110 ms."""
    lattice = TickLattice(Bracket(0.0, 0.01), Bracket(0.1, 0.11))

    window = lattice.window(3)

    assert window.earliest_s == pytest.approx(0.1 + 2 * 0.09)
    assert window.latest_s == pytest.approx(0.11 + 2 * 0.11)
    assert lattice.first_after(0.105) == 1
    assert lattice.first_after(0.115) == 2


def test_a_bracket_in_which_two_ticks_may_lie_has_no_number():
    lattice = TickLattice(Bracket(0.0, 0.01), Bracket(0.1, 0.11))

    assert lattice.number_of(Bracket(0.2, 0.21)) == 2
    assert lattice.number_of(Bracket(0.2, 0.31)) is None


@pytest.mark.parametrize("at_s", [0.0, 0.1, 0.2, 0.9, 1.0, 2.5, 7.3])
def test_the_first_tick_after_an_instant_has_none_before_it_that_may_come_after(at_s):
    lattice = TickLattice(Bracket(0.0, 0.01), Bracket(0.1, 0.11))

    number = lattice.first_after(at_s)

    assert lattice.window(number).latest_s > at_s >= lattice.window(number - 1).latest_s
