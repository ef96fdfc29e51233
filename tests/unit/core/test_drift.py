from math import exp, log, sqrt

import numpy as np
import pytest

from joulelab.core.steadiness import fit_drift

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
