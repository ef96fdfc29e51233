from math import exp, log, sqrt

import numpy as np
import pytest

from joulelab.core.steadiness import (
    fit_drift,
    power_is_steady,
    temperature_is_steady,
    time_is_steady,
    window_trend,
)
from joulelab.core.trace import PowerTrace


def trace_of(power_at):
    t_s = np.arange(0, 4, 0.02)
    return PowerTrace(t_s=t_s, power_w=power_at(t_s))


def test_equal_unit_times_are_steady():
    assert time_is_steady([0.1] * 20)


def test_unit_times_that_shrink_are_not_steady():
    assert not time_is_steady([0.1 - 0.002 * i for i in range(20)])


def test_jitter_of_short_units_averages_out():
    units_s = np.random.default_rng(0).normal(1e-3, 1e-4, 2000)

    assert time_is_steady(units_s)


def test_two_units_do_not_tell_whether_time_is_steady():
    assert not time_is_steady([1.0, 1.0])


def test_constant_power_is_steady_and_a_step_is_not():
    assert power_is_steady(trace_of(lambda t_s: 300 + 0 * t_s), 1, 3)
    assert not power_is_steady(trace_of(lambda t_s: np.where(t_s < 2, 280.0, 300.0)), 1, 3)
    assert not power_is_steady(trace_of(lambda t_s: np.where(t_s < 2, 300.0, 280.0)), 1, 3)


def test_noise_without_a_trend_is_steady():
    random = np.random.default_rng(0)

    assert power_is_steady(trace_of(lambda t_s: random.normal(300, 60, t_s.size)), 1, 3)


def test_power_that_was_not_seen_is_not_steady():
    assert not power_is_steady(trace_of(lambda t_s: 300 + 0 * t_s), 3, 5)


@pytest.mark.parametrize(
    ("slope_c_per_s", "steady"), [(0.04, True), (0.06, False), (-0.04, True), (-0.06, False)]
)
def test_temperature_may_move_half_a_degree_in_ten_seconds(slope_c_per_s, steady):
    at_s = np.arange(0, 10, 0.1)

    assert temperature_is_steady(at_s, 60 + slope_c_per_s * at_s) is steady


@pytest.mark.parametrize(("num", "steady"), [(2, False), (3, True)])
def test_three_temperatures_are_enough_and_two_are_not(num, steady):
    assert temperature_is_steady([0.0, 1.0, 2.0][:num], [60.0] * num) is steady


def test_windows_that_trend_are_told_by_how_much():
    assert window_trend([1.0, 1.05, 1.1], [0.001] * 3) == pytest.approx(0.1 / 1.05)


@pytest.mark.parametrize(("change_j", "is_told"), [(4.1, False), (4.4, True)])
def test_a_trend_is_more_than_three_times_what_readings_leave_of_a_difference(change_j, is_told):
    """Two windows read to 1 J each differ by no more than 1.41 J for that: k = 3."""
    windows_j = [100.0, 100.0 + change_j / 2, 100.0 + change_j]

    assert (window_trend(windows_j, [1.0] * 3) is not None) is is_told


def test_a_trend_within_two_percent_is_none():
    assert window_trend([1.0, 1.005, 1.01], [1e-6] * 3) is None


def test_windows_that_scatter_without_direction_do_not_trend():
    assert window_trend([36.3, 25.9, 32.0, 40.4], [0.1] * 4) is None


def test_a_load_that_speeds_up_from_window_to_window_trends():
    assert window_trend([23.4, 21.2, 19.7, 19.3, 18.6, 18.8], [0.1] * 6) == pytest.approx(
        -0.22, abs=0.02
    )


def test_scatter_is_seldom_taken_for_a_trend():
    rng = np.random.default_rng(1)
    trends = [window_trend(1 + 0.1 * rng.standard_normal(6), [1e-6] * 6) for _ in range(400)]
    assert sum(trend is not None for trend in trends) == pytest.approx(20, abs=14)


def test_two_samples_a_half_are_enough_and_one_is_not():
    at_s = np.array([1.0, 1.5, 2.5, 3.0])
    even = PowerTrace(t_s=at_s, power_w=np.full(4, 300.0))
    sparse = PowerTrace(t_s=at_s[[0, 2, 3]], power_w=np.full(3, 300.0))

    assert power_is_steady(even, 1, 3)
    assert not power_is_steady(sparse, 1, 3)


TIMES_S = [0.0, 600.0, 1200.0, 1800.0, 3600.0]


def test_a_steady_trend_is_found_exactly():
    drift = fit_drift("x", TIMES_S, [5.0 + 0.02 * t / 3600 for t in TIMES_S])

    assert drift.change.value == pytest.approx(exp(0.02) - 1)
    assert drift.span_s == 3600
    assert drift.exceeds(0.01)
    assert not drift.exceeds(0.03)


def test_a_fall_is_as_much_of_a_drift_as_a_rise():
    drift = fit_drift("x", TIMES_S, [5.0 - 0.02 * t / 3600 for t in TIMES_S])

    assert drift.change.value == pytest.approx(exp(-0.02) - 1)
    assert drift.exceeds(0.01)


def test_the_interval_of_a_drift_of_three_sentinels_is_that_of_students_tables():
    """Residuals 0.01, -0.02 and 0.01 leave 0.0006 over 3 - 2, and the times spread 2."""
    drift = fit_drift("x", [0.0, 1.0, 2.0], [1.01, 1.08, 1.21])

    margin = 2 * 12.7062 * sqrt(0.0006 / 2)  # over two seconds; t(0.975, 1)
    assert log(1 + drift.change.high) == pytest.approx(0.2 + margin, rel=1e-4)
    assert log(1 + drift.change.low) == pytest.approx(0.2 - margin, rel=1e-4)


def test_scatter_alone_is_no_drift():
    random = np.random.default_rng(0)

    found = [fit_drift("x", TIMES_S, random.normal(0, 0.02, 5)).exceeds(0.01) for _ in range(300)]

    assert np.mean(found) < 0.09


@pytest.mark.parametrize("times_s", [[], [0.0], [0.0, 10.0], [5.0, 5.0, 5.0]])
def test_too_few_sentinels_show_no_trend(times_s):
    drift = fit_drift("x", times_s, [1.0] * len(times_s))

    assert drift.change is None
    assert not drift.exceeds(0.0)
