from dataclasses import astuple
from math import exp, inf, log, sqrt
from random import Random
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.additive import Interval, estimates, fit_additive, less, more, tied
from joulelab.core.statistics import student_quantile
from joulelab.errors import ConfigError, MeasurementError


def fit(rows, *, u=0.0):
    """Fit rows of (configuration, board, logarithm)."""
    configurations, boards, logarithms = zip(*rows, strict=True)
    return fit_additive(configurations, boards, logarithms, [u] * len(rows))


def test_on_one_board_the_estimate_is_the_mean_of_the_logarithms():
    fitted = fit([("a", "x", 1.0), ("a", "x", 1.2), ("b", "x", 2.0), ("b", "x", 2.4)])

    assert fitted.estimate == pytest.approx([1.1, 2.2])
    assert fitted.value("b") == pytest.approx(exp(2.2))
    assert fitted.dof == 2
    assert fitted.residual_sd == pytest.approx(sqrt((2 * 0.1**2 + 2 * 0.2**2) / 2))


def test_the_interval_of_a_ratio_is_the_pooled_t_interval():
    a, b = [1.0, 1.2, 1.1], [2.0, 2.4, 2.3]
    fitted = fit([("a", "x", y) for y in a] + [("b", "x", y) for y in b])

    ratio = fitted.ratio("b", "a")

    pooled = sqrt((stdev(a) ** 2 + stdev(b) ** 2) / 2)
    margin = 2.7764451 * pooled * sqrt(2 / 3)  # t(0.975, 4) of the tables
    difference = sum(b) / 3 - sum(a) / 3
    assert ratio.value == pytest.approx(exp(difference))
    assert log(ratio.high) == pytest.approx(difference + margin)
    assert log(ratio.low) == pytest.approx(difference - margin)


@given(
    effects=st.lists(st.floats(-2, 2), min_size=2, max_size=6),
    gains=st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_boards_are_taken_out_exactly_where_there_is_no_noise(effects, gains, seed):
    random = Random(seed)
    rows = [
        (f"c{i}", f"b{random.randrange(len(gains))}") for i in range(len(effects)) for _ in range(2)
    ]
    rows += [("c0", f"b{j}") for j in range(len(gains))]  # sentinels tie all boards
    exact = [(c, b, effects[int(c[1:])] + gains[int(b[1:])]) for c, b in rows]

    fitted = fit(exact)

    for i, effect in enumerate(effects):
        ratio = fitted.ratio(f"c{i}", "c0")
        assert log(ratio.value) == pytest.approx(effect - effects[0], abs=1e-9)


def test_the_estimate_is_for_the_average_board():
    fitted = fit([("a", "x", 1.1), ("a", "y", 0.9), ("b", "x", 2.1)])

    assert fitted.estimate == pytest.approx([1.0, 2.0])


def test_a_single_repeat_falls_back_on_the_stated_uncertainty():
    fitted = fit([("a", "x", 1.0), ("b", "x", 2.0)], u=0.01)

    ratio = fitted.ratio("b", "a")

    assert (fitted.dof, fitted.residual_sd) == (0, None)
    assert log(ratio.high) - 1.0 == pytest.approx(1.9599640 * 0.01 * sqrt(2))
    assert fitted.relative_u("a") == pytest.approx(0.01)


def test_lucky_repeats_do_not_beat_the_stated_uncertainty():
    rows = [("a", "x", 1.0)] * 4 + [("b", "x", 2.0)] * 4

    assert fit(rows, u=0.01).relative_u("a") == pytest.approx(0.01 / sqrt(4))


def test_scatter_beyond_the_stated_uncertainty_counts():
    rows = [("a", "x", 0.9), ("a", "x", 1.1), ("b", "x", 1.9), ("b", "x", 2.1)]

    assert fit(rows, u=1e-6).relative_u("a") == pytest.approx(0.1)


def test_a_configuration_equals_itself_without_doubt():
    ratio = fit([("a", "x", 1.0), ("a", "x", 1.3), ("b", "x", 2.0)], u=0.01).ratio("a", "a")

    assert (ratio.value, ratio.low, ratio.high) == (1.0, 1.0, 1.0)


def test_boards_that_share_nothing_are_refused_with_advice():
    with pytest.raises(MeasurementError, match="sentinels do that"):
        fit([("a", "x", 1.0), ("b", "y", 2.0)])


def test_a_chain_of_shared_configurations_ties_boards():
    configurations = ["a", "b", "b", "c", "d"]
    boards = ["x", "x", "y", "y", "z"]

    assert tied(configurations, boards, "a") == [True, True, True, True, False]
    assert tied(configurations, boards, "d") == [False, False, False, False, True]


def test_nothing_measured_is_refused():
    with pytest.raises(ConfigError, match="needs measurements"):
        fit_additive([], [], [], [])


@pytest.mark.parametrize(("dof", "expected"), [(1, 6.314), (10, 1.812), (inf, 1.645)])
def test_quantiles_are_those_of_the_tables(dof, expected):
    assert student_quantile(0.95, dof) == pytest.approx(expected, abs=5e-4)


def test_intervals_hold_the_truth_as_often_as_they_say():
    random = np.random.default_rng(1)
    held = 0
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "x"), ("a", "x")]
    truth = {"a": 0.0, "b": 0.3, "x": 0.0, "y": 0.1}
    for _ in range(400):
        rows = [(c, b, truth[c] + truth[b] + random.normal(0, 0.05)) for c, b in pairs]
        held += not fit(rows).ratio("b", "a").excludes(exp(0.3))

    assert held / 400 == pytest.approx(0.95, abs=0.033)  # three binomial standard deviations


def test_boards_that_differ_as_expected_are_drawn_together_by_how_uncertain_they_are():
    """Boards at +-b, measured n times each with an error e, are put at b n / (n + (e / sd)^2)."""
    assert board_effects(0.02) == pytest.approx([0.01, -0.01])  # 0.02 * 4 / (4 + 2^2)


def test_boards_that_differ_by_more_than_expected_are_drawn_together_less():
    effects = board_effects(0.08)

    assert 0.08 * 4 / (4 + (0.04 / 0.02) ** 2) < effects[0] < 0.08 * 4 / (4 + (0.04 / 0.12) ** 2)


def board_effects(b):
    """Effects of two boards at +-b, with four pairs of measurements whose residual sd is 0.04."""
    configuration, board = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    error = np.tile([1, -1, -1, 1], 2) * 0.04 * sqrt(3 / 8)
    _, effects = estimates(
        configuration, board, np.tile([b, -b], 4) + error, np.full(8, 0.04), board_sd=0.02
    )
    return effects


def test_stated_uncertainties_pass_through_the_fit_as_it_is_linear():
    """The covariance is J diag(u^2) J' with the Jacobian of the estimates (GUM 5.1.2, F.1.2.3)."""
    names, boards = list("aabbbcca"), list("xyxyzzxz")
    logarithms = np.array([0.1, 0.3, -0.2, 0.0, 0.4, 0.2, 0.7, 0.5])
    u = np.linspace(0.01, 0.08, 8)

    def fitted(y):
        return fit_additive(names, boards, list(y), list(u))

    base = fitted(logarithms)
    jacobian = np.stack([fitted(logarithms + row).estimate - base.estimate for row in np.eye(8)])

    assert base.stated == pytest.approx(jacobian.T @ np.diag(u**2) @ jacobian)


def test_a_ratio_is_a_share_that_is_saved_or_added():
    ratio = Interval(value=0.8, low=0.75, high=0.9)

    assert astuple(less(ratio)) == pytest.approx((0.2, 0.1, 0.25))
    assert astuple(more(ratio)) == pytest.approx((-0.2, -0.25, -0.1))


def test_boards_that_single_readings_tie_leave_no_fewer_than_no_degrees_of_freedom():
    # The rank of these equations, found by their singular values, is one more than there are ties.
    boards = ["a", "b", "c", "d", "b", "d"]
    configurations = ["x", "x", "x", "y", "z", "w"]

    fit = fit_additive(
        configurations, boards, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.01] * 6, board_sd=0.05
    )

    assert fit.dof == 0
    assert fit.residual_sd is None
