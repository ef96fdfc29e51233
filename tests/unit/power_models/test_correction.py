"""What measured points say about a model's error, beside them and far from them."""

import numpy as np
import pytest

from joulelab.power_models.correction import correction_of

AT = np.log([0.5, 0.75, 1.0])
FAR = np.log(np.array([0.3]))


def test_one_point_scales_and_two_tilt():
    one = correction_of(AT[2:], np.array([0.1]))
    two = correction_of(AT[[0, 2]], np.array([0.0, 0.1]))

    assert one.at(AT) == pytest.approx(np.full(3, 0.1))
    assert two.at(AT[[0, 2]]) == pytest.approx([0.0, 0.1])
    assert two.at(FAR) == pytest.approx(0.1 + 0.1 * FAR / np.log(2.0))


def test_of_three_points_what_the_line_leaves_is_followed_where_it_was_found():
    """All six clocks of an application were measured, and 2.5 % was missed at one of them."""
    bump = np.array([0.0, 0.05, 0.0])

    found = correction_of(AT, bump)

    line = found.offset + found.slope * AT
    assert found.at(AT) - line == pytest.approx((bump - line) / 1.1, rel=0.05)
    assert found.at(FAR) == pytest.approx(found.offset + found.slope * FAR, abs=1e-4)


def test_points_at_one_clock_count_as_their_mean():
    apart = correction_of(np.append(AT, AT[1]), np.array([0.0, 0.04, 0.0, 0.06]))

    assert apart.anchors == pytest.approx(tuple(AT), abs=1e-8)
    assert len(apart.pulls) == 3
    assert apart.at(AT[1:2]) > apart.offset + apart.slope * AT[1]


def test_what_lies_on_a_line_pulls_at_nothing():
    found = correction_of(AT, 0.02 + 0.1 * AT)

    assert found.pulls == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_a_slope_is_taken_for_as_much_as_scattered_points_can_tell():
    """Slopes of 0.1 are usual: 5 % at 0.7 of the clock is one if points are exact."""
    log_ratio, error = np.array([0.0, -0.35]), np.array([0.0, 0.05])

    exact, scattered, useless = (correction_of(log_ratio, error, sd) for sd in (0.0, 0.02, 10.0))

    kept = 0.35**2 / 2 / (0.35**2 / 2 + 0.2**2)
    assert exact.slope == pytest.approx(-0.05 / 0.35)
    assert scattered.slope == pytest.approx(kept * exact.slope)
    assert useless.at(log_ratio) == pytest.approx([0.025, 0.025], abs=1e-4)
