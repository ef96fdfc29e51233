import numpy as np
import pytest

from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, MeasurementError
from joulelab.statistics.steady import mser5, steady_part


def warming(num=800, *, tau=40.0, depth_w=100.0, noise_w=1.0, seed=0):
    """Return power that approaches 500 W with time constant ``tau`` samples of 0.1 s."""
    random = np.random.default_rng(seed)
    t = np.arange(num)
    power_w = 500.0 - depth_w * np.exp(-t / tau) + noise_w * random.standard_normal(num)
    return PowerTrace(0.1 * t, power_w)


def slow_mser5(values):
    """The rule as it is written: try every cut."""
    batches = values[len(values) % 5 :].reshape(-1, 5).mean(axis=1)
    error = [batches[cut:].var() / len(batches[cut:]) for cut in range(len(batches) // 2)]
    cut = int(np.argmin(error))
    return 5 * cut + (len(values) % 5 if cut else 0)


@pytest.mark.parametrize("seed", range(5))
def test_the_cut_is_that_of_the_rule(seed):
    power_w = warming(803, seed=seed).power_w

    assert mser5(power_w) == slow_mser5(power_w)


def test_a_warm_up_is_cut_and_its_bias_goes():
    trace = warming()

    part = steady_part(trace)

    assert 10.0 < part.start_s < 40.0
    kept = trace.power_w[trace.t_s >= part.start_s]
    assert kept.mean() == pytest.approx(500.0, abs=0.5)
    assert trace.power_w.mean() < 496.0


def test_a_steady_trace_is_hardly_cut():
    assert steady_part(warming(depth_w=0.0)).dropped_share < 0.3


def test_a_load_that_never_gets_steady_is_refused():
    with pytest.raises(MeasurementError, match="steady"):
        steady_part(warming(tau=800.0))


def test_a_temperature_that_still_rises_is_refused():
    at_s = np.arange(0.0, 80.0, 1.0)

    with pytest.raises(MeasurementError, match="Temperature must be steady"):
        steady_part(warming(), at_s, 40.0 + 0.2 * at_s)

    assert steady_part(warming(), at_s, 60.0 - 20.0 * np.exp(-at_s / 3.0)).start_s > 0


def test_a_short_trace_is_refused():
    with pytest.raises(ConfigError, match="At least 20 values"):
        mser5(np.ones(19))


def test_every_temperature_needs_its_time():
    with pytest.raises(ConfigError, match="1 times and 2 temperatures"):
        steady_part(warming(), [1.0], [40.0, 41.0])
