from math import hypot, sqrt

import numpy as np
import pytest

from joulelab.core.counter import samples_window
from joulelab.core.trace import PowerTrace
from joulelab.errors import TraceCoverageError


def test_energy_of_a_ramp_from_samples_matches_the_closed_form():
    t_s = np.arange(0, 5, 0.02)

    window = samples_window(PowerTrace(t_s=t_s, power_w=10 * t_s), 1.003, 3.017, work=4.0)

    assert window.energy_j == pytest.approx(5 * (3.017**2 - 1.003**2))
    assert (window.source, window.work) == ("samples", 4.0)


def test_the_stated_uncertainty_is_the_scatter_over_repeats():
    """White sensor noise of 10 W in 100 updates leaves 1 % of 10 W per second of window."""
    random = np.random.default_rng(3)
    t_s = np.arange(0, 4, 0.02)
    windows = [
        samples_window(PowerTrace(t_s=t_s, power_w=300 + random.normal(0, 10, t_s.size)), 1, 3)
        for _ in range(300)
    ]

    errors_j = [window.energy_j - 600 for window in windows]
    stated_j = np.mean([window.energy_u_j for window in windows])

    assert stated_j == pytest.approx(np.std(errors_j), rel=0.2)


def test_a_ramp_is_as_uncertain_as_the_age_of_the_samples_at_its_edges():
    """It rises by 20 W from edge to edge, of which the spacing of 20 ms leaves open a part.

    The age of a sample is anything up to its spacing (a rectangular distribution, GUM 4.3.7).
    Neighbours differ by 0.2 W throughout, which is all that the ramp adds to the scatter.
    """
    t_s = np.arange(0, 5, 0.02)

    window = samples_window(PowerTrace(t_s=t_s, power_w=10 * t_s), 1.01, 3.01)

    edges_j = 20 * 0.02 / sqrt(12)
    scatter_j = 0.2 / sqrt(2) * 2 / sqrt(100)
    assert window.energy_u_j == pytest.approx(hypot(edges_j, scatter_j), rel=1e-3)


def test_readings_that_repeat_are_not_counted_as_new_updates():
    random = np.random.default_rng(4)
    power_w = 300 + random.normal(0, 10, 60)
    often = PowerTrace(t_s=np.arange(0, 6, 0.01), power_w=np.repeat(power_w, 10))
    seldom = PowerTrace(t_s=np.arange(0, 6, 0.1), power_w=power_w)

    assert samples_window(often, 1, 5).energy_u_j == pytest.approx(
        samples_window(seldom, 1, 5).energy_u_j, rel=0.05
    )


def test_an_interval_beyond_the_samples_is_refused():
    trace = PowerTrace(t_s=np.arange(0, 2, 0.02), power_w=np.full(100, 300.0))

    with pytest.raises(TraceCoverageError):
        samples_window(trace, 1.0, 3.0)


def test_two_samples_span_what_lies_between_them_and_no_more():
    trace = PowerTrace(t_s=np.array([1.0, 2.0]), power_w=np.array([300.0, 100.0]))

    assert trace.spans(1.0, 2.0)
    assert not trace.spans(0.9, 2.0)
    assert not trace.spans(1.0, 2.1)
    assert trace.energy_j(1.0, 2.0) == pytest.approx(200.0)
