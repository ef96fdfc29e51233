"""What measured points of an application say about a law, and about a model's error."""

import numpy as np
import pytest

from joulelab.power_models.calibration import correction_of
from joulelab.power_models.members.readings import Fit, Readings, fitted_to

AT = np.array([0.0, -0.35])
CALM, WILD = np.full(20, 0.005), np.array([0.005] * 19 + [0.08])


def law(moved):
    """Return values that are 1 at the profile; their logs tilt by a tenth per doubt."""
    return np.exp(0.1 * moved[0, 0] * AT)


def tilt(off, scatters, free_level=True):
    both = np.zeros(2, dtype=np.intp)
    read = Readings(
        law=law, values=np.exp([0.0, off]), which=both, shape=(1, 1), free_level=free_level
    )
    fit = fitted_to(read, scatters)
    return Fit(moved=fit.moved[0], scatter=fit.scatter[0])


def test_a_reading_is_weighed_against_its_scatter_and_what_is_guessed():
    """Bayes for one parameter: a difference of two readings has twice the variance of one."""
    found = tilt(0.02, CALM)

    slope = -0.1 * 0.35
    assert found.moved[0] == pytest.approx(0.02 * slope / (slope**2 + 2 * 0.005**2), rel=1e-3)
    assert found.scatter == pytest.approx(0.005)


def test_a_level_that_is_read_besides_leaves_one_scatter_less():
    known, free = (tilt(0.02, CALM, level).moved[0] for level in (False, True))

    assert abs(known) > abs(free)


def test_readings_off_by_more_than_usual_are_those_of_one_that_scatters():
    """A time 13 % too short by chance bent the curve as if it had been exact."""
    small, large = tilt(0.01, WILD), tilt(-0.15, WILD)

    assert small.moved == pytest.approx(tilt(0.01, CALM).moved, rel=0.1)
    assert large.scatter == pytest.approx(0.08, rel=0.1)
    assert abs(large.moved[0]) < 0.5 * abs(tilt(-0.15, CALM).moved[0])


def test_without_others_a_reading_has_the_usual_error():
    assert tilt(0.01, np.zeros(0)).scatter == pytest.approx(0.005)


CLOCKS = np.log([0.5, 0.75, 1.0])
FAR = np.log(np.array([0.3]))


def test_one_point_scales_and_two_tilt():
    one = correction_of(CLOCKS[2:], np.array([0.1]))
    two = correction_of(CLOCKS[[0, 2]], np.array([0.0, 0.1]))

    assert one.at(CLOCKS) == pytest.approx(np.full(3, 0.1))
    assert two.at(CLOCKS[[0, 2]]) == pytest.approx([0.0, 0.1])
    assert two.at(FAR) == pytest.approx(0.1 + 0.1 * FAR / np.log(2.0))


def test_of_three_points_what_the_line_leaves_is_followed_where_it_was_found():
    """All six clocks of an application were measured, and 2.5 % was missed at one of them."""
    bump = np.array([0.0, 0.05, 0.0])

    found = correction_of(CLOCKS, bump)

    line = found.offset + found.slope * CLOCKS
    assert found.at(CLOCKS) - line == pytest.approx((bump - line) / 1.1, rel=0.05)
    assert found.at(FAR) == pytest.approx(found.offset + found.slope * FAR, abs=1e-4)


def test_points_at_one_clock_count_as_their_mean():
    apart = correction_of(np.append(CLOCKS, CLOCKS[1]), np.array([0.0, 0.04, 0.0, 0.06]))

    assert apart.anchors == pytest.approx(tuple(CLOCKS), abs=1e-8)
    assert len(apart.pulls) == 3
    assert apart.at(CLOCKS[1:2]) > apart.offset + apart.slope * CLOCKS[1]


def test_what_lies_on_a_line_pulls_at_nothing():
    found = correction_of(CLOCKS, 0.02 + 0.1 * CLOCKS)

    assert found.pulls == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_a_slope_is_taken_for_as_much_as_scattered_points_can_tell():
    """Slopes of 0.1 are usual: 5 % at 0.7 of the clock is one if points are exact."""
    log_ratio, error = np.array([0.0, -0.35]), np.array([0.0, 0.05])

    exact, scattered, useless = (correction_of(log_ratio, error, sd) for sd in (0.0, 0.02, 10.0))

    kept = 0.35**2 / 2 / (0.35**2 / 2 + 0.2**2)
    assert exact.slope == pytest.approx(-0.05 / 0.35)
    assert scattered.slope == pytest.approx(kept * exact.slope)
    assert useless.at(log_ratio) == pytest.approx([0.025, 0.025], abs=1e-4)
