"""By how much configurations are expected to push out a front."""

import numpy as np
import pytest

from joulelab.core.comparison import non_dominated
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
