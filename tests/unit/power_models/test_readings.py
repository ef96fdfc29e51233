"""Two readings of an application, told apart from their scatter by that of others."""

import numpy as np
import pytest

from joulelab.power_models.members.readings import fitted_to

AT = np.array([0.0, -0.35])
CALM, WILD = np.full(20, 0.005), np.array([0.005] * 19 + [0.08])


def law(moved):
    """Return logs that are 0 at the profile and tilt by a tenth per doubt."""
    return 0.1 * moved[0] * AT


def tilt(off, scatters, free_level=True):
    return fitted_to(law, np.array([0.0, off]), 1, scatters=scatters, free_level=free_level)


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
