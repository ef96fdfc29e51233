from math import inf, isinf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.statistics import (
    jackknife_u,
    line_slope,
    line_slope_and_u,
    log_ratio,
    log_ratio_interval,
    mean_u,
    student_quantile,
    student_t,
)
from joulelab.errors import ConfigError, MeasurementError


@pytest.mark.parametrize(("num_values", "factor"), [(2, 12.706), (5, 2.776), (31, 2.042)])
def test_student_factors_match_the_printed_tables(num_values, factor):
    assert student_t(0.95, num_values) == pytest.approx(factor, abs=5e-4)


def test_a_student_factor_of_one_value_is_refused():
    with pytest.raises(ConfigError, match="at least 2"):
        student_t(0.95, 1)


def test_the_uncertainty_of_a_mean_is_the_deviation_by_the_root_of_their_number():
    assert mean_u([9.0, 11.0]) == pytest.approx(1.0)  # sqrt(2) / sqrt(2)


def test_the_mean_of_no_values_is_refused():
    with pytest.raises(MeasurementError):
        mean_u([])


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_saving_and_the_loss_that_undoes_it_cancel(value, reference):
    assert log_ratio(value, reference) == pytest.approx(-log_ratio(reference, value))


def test_a_ratio_with_zero_is_refused():
    with pytest.raises(MeasurementError, match="positive"):
        log_ratio(0.0, 1.0)


def test_the_interval_of_a_ratio_is_symmetric_in_the_logarithm():
    low, high = log_ratio_interval(log(0.8), 0.1, 2.0)

    assert sqrt(low * high) == pytest.approx(0.8)
    assert log(high / low) == pytest.approx(0.4)


def test_a_slope_needs_two_different_places():
    assert line_slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    with pytest.raises(MeasurementError, match="no slope"):
        line_slope([1, 1], [2, 3])


def test_a_slope_is_as_uncertain_as_the_textbook_says():
    """By hand: residuals -0.1, 0.3, -0.3, 0.1 leave 0.2 over 4 - 2, and the places spread 5."""
    slope, u = line_slope_and_u([0, 1, 2, 3], [0.9, 3.3, 4.7, 7.1])

    assert slope == pytest.approx(2.0)
    assert u == pytest.approx(sqrt(0.2 / 2 / 5))


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 7, 30, 1001, inf])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.84, 0.975, 0.9995])
def test_quantiles_of_students_distribution_are_scipys(probability, dof):
    special = pytest.importorskip("scipy.special")
    expected = special.ndtri(probability) if isinf(dof) else special.stdtrit(dof, probability)

    assert student_quantile(probability, dof) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_the_jackknife_of_means_is_the_uncertainty_of_the_mean():
    values = [1.0, 2.0, 4.0, 7.0]
    left_out = [[(sum(values) - each) / 3, 0.0] for each in values]

    assert jackknife_u(left_out).tolist() == pytest.approx([mean_u(values), 0.0])
