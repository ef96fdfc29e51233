"""The law of power and time over clocks against closed forms."""

import numpy as np
import pytest

from joulelab.core.power_law import (
    board_w,
    height,
    held_clock,
    relative_time,
    roofline,
    starvation,
    voltage,
)

RATIO = np.array([0.4, 0.7, 1.0])


def test_voltage_is_flat_below_the_ridge_and_quadratic_above():
    above = height(RATIO, 0.7, 0.3)

    assert voltage(above, 0.3, 0.1) == pytest.approx([1.0, 1.0, 1.4])
    assert voltage(height(1300.0, 1000.0, 1000.0), 1.0, 2.0) == pytest.approx(1.48)


def test_the_core_draws_by_squared_voltage_and_memory_does_not():
    assert board_w(50.0, 4.0, 10.0, 7.0) == pytest.approx(97.0)


def test_memory_is_starved_in_proportion_below_the_knee():
    assert starvation(RATIO, 0.8) == pytest.approx([2.0, 8 / 7, 1.0])


def test_work_of_the_core_alone_goes_with_the_inverse_of_the_clock():
    assert roofline(RATIO, np.zeros(3), 0.6) == pytest.approx(1.0 / RATIO)


def test_the_part_of_the_host_takes_as_long_at_any_clock():
    """A half of the time is the host's, the rest the core's: 1/2 + 1/2 / 0.4 at 0.4."""
    half, none, whole = (np.tile([odds, -12.0], (3, 1)) for odds in (0.0, -30.0, 30.0))

    assert relative_time(RATIO, half, np.full(3, 0.6)) == pytest.approx(0.5 + 0.5 / RATIO)
    assert relative_time(RATIO, none, np.full(3, 0.6)) == pytest.approx(np.ones(3))
    assert relative_time(RATIO, whole, np.full(3, 0.6)) == pytest.approx(1.0 / RATIO)


def test_a_limit_holds_the_clock_at_which_power_meets_it():
    """P = 100 + 600 x^3 is 175 W at half the clock; nothing is within 90 W."""
    limit_w = np.array([175.0, 100.0 + 600.0 * 0.9**3, 90.0])

    held = held_clock(lambda x: 100.0 + 600.0 * x**3, limit_w, 0.1, np.ones(3))

    assert held == pytest.approx([0.5, 0.9, 0.1], rel=1e-8)


def test_a_clock_is_held_also_where_power_rises_late():
    """Ten cuts, as they were, ended 0.9 % below it."""

    def power_w(x):
        return 100.0 + np.exp(40.0 * (x - 0.9))

    held = held_clock(power_w, np.array([101.0]), 0.05, np.ones(1))

    assert power_w(held) == pytest.approx([101.0], rel=1e-8)
