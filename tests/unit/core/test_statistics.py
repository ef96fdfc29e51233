from math import log, sqrt
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.statistics import (
    confidence_half_width,
    line_slope,
    log_ratio,
    log_ratio_interval,
    log_ratio_u,
    mean_u,
    student_t,
)
from joulelab.errors import ConfigError, MeasurementError


@pytest.mark.parametrize(("num_values", "factor"), [(2, 12.706), (5, 2.776), (31, 2.042)])
def test_student_factors_match_the_printed_tables(num_values, factor):
    assert student_t(0.95, num_values) == pytest.approx(factor, abs=5e-4)


def test_a_student_factor_of_one_value_is_refused():
    with pytest.raises(ConfigError, match="at least 2"):
        student_t(0.95, 1)


def test_the_half_width_is_student_times_standard_error():
    values = [9.0, 10.0, 11.0, 12.0]

    assert confidence_half_width(values) == pytest.approx(3.182 * stdev(values) / 2, rel=1e-3)


def test_one_value_has_no_confidence_interval():
    with pytest.raises(MeasurementError, match="two values"):
        confidence_half_width([3.0])


def test_the_mean_of_no_values_is_refused():
    with pytest.raises(MeasurementError):
        mean_u([])


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_saving_and_the_loss_that_undoes_it_cancel(value, reference):
    assert log_ratio(value, reference) == pytest.approx(-log_ratio(reference, value))


def test_a_ratio_with_zero_is_refused():
    with pytest.raises(MeasurementError, match="positive"):
        log_ratio(0.0, 1.0)


def test_relative_uncertainties_add_in_squares_in_a_log_ratio():
    assert log_ratio_u(0.03, 0.04) == pytest.approx(0.05)


def test_the_interval_of_a_ratio_is_symmetric_in_the_logarithm():
    low, high = log_ratio_interval(log(0.8), 0.1, 2.0)

    assert sqrt(low * high) == pytest.approx(0.8)
    assert log(high / low) == pytest.approx(0.4)


def test_a_slope_needs_two_different_places():
    assert line_slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    with pytest.raises(MeasurementError, match="no slope"):
        line_slope([1, 1], [2, 3])
