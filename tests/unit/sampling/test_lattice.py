"""Where ticks can lie by the few that were timed."""

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
