import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from joulelab.core.comparison import non_dominated
from joulelab.errors import ConfigError

costs = st.integers(1, 12).flatmap(
    lambda n: arrays(float, (n, 2), elements=st.integers(0, 5).map(float))
)


def test_the_front_of_a_known_set():
    energy_and_time = np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 3.0], [5.0, 1.0], [5.0, 1.0]])

    assert non_dominated(energy_and_time).tolist() == [True, True, False, True, True]


@given(costs=costs)
def test_whatever_is_off_the_front_is_beaten_by_a_point_on_it(costs):
    on_front = non_dominated(costs)

    assert on_front.any()
    for point in costs[~on_front]:
        better = (costs[on_front] <= point).all(axis=1) & (costs[on_front] < point).any(axis=1)
        assert better.any()


@given(costs=costs)
def test_points_on_the_front_do_not_beat_each_other(costs):
    assert non_dominated(costs[non_dominated(costs)]).all()


@pytest.mark.parametrize("costs", [np.zeros(3), np.array([[1.0, np.nan]])])
def test_points_that_cannot_be_compared_are_refused(costs):
    with pytest.raises(ConfigError, match="costs must be finite"):
        non_dominated(costs)
