"""The front of energy, time and quality: what may push it out, and its knee."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab import Configuration
from joulelab.core.comparison import non_dominated
from joulelab.searching.answer import Choice, knee_of, pareto_front
from joulelab.searching.base import Figures
from joulelab.searching.strategies.front_guided import expected_growth, front_places

NOTHING = np.zeros((0, 3))
ONES = np.ones(3)


def growth(candidate, front, *, u=0.0):
    """Return the growth by one candidate: its two costs and its loss."""
    mean = np.array([candidate[:2]])
    u = np.broadcast_to(np.asarray(u, dtype=float), (1, 2))
    return expected_growth(mean, u, np.array([candidate[2]]), np.array(front, dtype=float), ONES)[0]


def test_the_first_point_dominates_the_box_up_to_the_reference():
    assert growth((0.2, 0.5, 0.6), NOTHING) == pytest.approx(0.8 * 0.5 * 0.4)


def test_a_point_between_two_of_a_front_adds_the_rectangle_that_only_it_dominates():
    front = [(0.2, 0.8, 0.0), (0.6, 0.2, 0.0)]

    assert growth((0.4, 0.5, 0.0), front) == pytest.approx((0.6 - 0.4) * (0.8 - 0.5))


def test_what_is_dominated_or_beyond_the_reference_adds_nothing():
    front = [(0.2, 0.2, 0.0)]

    assert growth((0.3, 0.3, 0.5), front) == pytest.approx(0.0, abs=1e-12)
    assert growth((1.2, 0.1, 0.0), front) == pytest.approx(0.0, abs=1e-12)
    assert growth((0.1, 0.1, 1.0), front) == 0.0


def test_a_slower_point_that_keeps_more_of_the_quality_counts_where_others_lose_more():
    front = [(0.2, 0.2, 0.5)]

    assert growth((0.6, 0.6, 0.1), front) == pytest.approx(0.4 * 0.4 * (0.5 - 0.1))


def test_expected_growth_is_the_mean_over_what_the_candidate_may_be():
    front = [(0.2, 0.8, 0.0), (0.5, 0.4, 0.3), (0.7, 0.3, 0.1)]
    random = np.random.default_rng(1)
    drawn = random.normal((0.45, 0.5), (0.1, 0.2), size=(20_000, 2))
    exact = np.zeros_like(drawn)

    each = expected_growth(drawn, exact, np.full(len(drawn), 0.05), np.array(front), ONES)

    expected = growth((0.45, 0.5, 0.05), front, u=(0.1, 0.2))
    assert expected == pytest.approx(each.mean(), rel=0.02)
    assert expected > growth((0.45, 0.5, 0.05), front)


def test_places_of_a_front_are_those_that_nothing_dominates():
    costs = np.random.default_rng(2).random((300, 3)).round(2)
    costs[:, 2] = costs[:, 2].round(1)

    found = front_places(costs)

    wanted = {tuple(each) for each in costs[non_dominated(costs)]}
    assert {tuple(each) for each in costs[found]} == wanted


PLACES = st.integers(1, 6).map(float)
QUALITIES = st.integers(95, 100).map(lambda percent: percent / 100)


def choice(energy_j, time_s, retention=None, retention_u=None):
    found = Figures(
        energy_j=energy_j, energy_u_j=0.0, time_s=time_s, time_u_s=0.0,
        power_w=energy_j / time_s, retention=retention, retention_u=retention_u, board="GPU-1",
    )  # fmt: skip
    return Choice(configuration=Configuration.of("gemm", {"n": energy_j}), figures=found)


def test_the_front_holds_what_nothing_beats_in_energy_time_and_quality():
    fast, frugal, good = choice(3.0, 1.0, 0.9), choice(1.0, 3.0, 0.9), choice(4.0, 4.0, 1.0)
    beaten = choice(3.5, 1.5, 0.9)

    assert pareto_front([good, beaten, frugal, fast]) == (fast, frugal, good)
    assert pareto_front([choice(4.0, 4.0), choice(1.0, 3.0)])[0].figures.energy_j == 1.0


def test_quality_that_may_be_chance_buys_no_place_on_the_front():
    frugal = choice(157.0, 0.5, 1.0005, 0.0005)
    dear = choice(975.0, 2.5, 1.0009, 0.0011)

    assert pareto_front([dear, frugal]) == (frugal,)
    assert pareto_front([choice(975.0, 2.5, 1.0040, 0.0011), frugal])[1].figures.energy_j == 975.0


def test_what_surely_keeps_more_is_on_the_front_even_if_something_between_is_not():
    low, between, high = (
        choice(cost, cost, kept, 0.01) for cost, kept in ((1.0, 0.95), (2.0, 0.97), (3.0, 0.985))
    )

    assert pareto_front([between, high, low]) == (low, high)


def test_without_a_quality_of_each_quality_does_not_count():
    assert pareto_front([choice(1.0, 1.0), choice(2.0, 2.0, 1.0)]) == (choice(1.0, 1.0),)


@given(st.lists(st.builds(choice, PLACES, PLACES, QUALITIES), min_size=1, max_size=12))
def test_exact_qualities_give_what_is_beaten_by_nothing(choices):
    front = pareto_front(choices)

    def costs(each):
        return each.figures.energy_j, each.figures.time_s, -each.figures.retention

    def beaten(one):
        return any(
            all(a <= b for a, b in zip(costs(other), costs(one), strict=True))
            and costs(other) != costs(one)
            for other in choices
        )

    assert {costs(each) for each in front} == {costs(c) for c in choices if not beaten(c)}
    assert all(a.figures.time_s <= b.figures.time_s for a, b in pairwise(front))


def test_the_knee_is_nearest_to_the_best_of_each_quantity():
    front = [choice(100.0, 1.0), choice(2.0, 2.0), choice(1.0, 100.0)]

    assert knee_of(front) == front[1]
    assert knee_of(front[:1]) == front[0]


@pytest.mark.parametrize(("retention_u", "knee"), [(0.01, 0), (0.0001, 1)])
def test_a_knee_heeds_quality_that_can_be_told_apart(retention_u, knee):
    ends = choice(1.0, 4.0, 0.999, retention_u), choice(4.0, 1.01, 1.0, retention_u)

    assert knee_of(ends) == ends[knee]
