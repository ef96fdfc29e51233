"""Sensors are measured; the device's true tick, latency and power are known here."""

from math import sqrt

import numpy as np
import pytest
from fake_gpu import IDLE_W, FakeGpu

from joulelab.core.ticks import CounterPolls
from joulelab.core.trace import PowerTrace
from joulelab.errors import DeviceUnsupportedError, MeasurementError
from joulelab.sampling.calibration import (
    _jitter_s,
    calibrate,
    measure_latencies,
    measure_observer_effect,
    measure_sample_buffer,
    measure_tick,
)


class WatchedGpu(FakeGpu):
    """Draws ``extra_w`` more while anybody has looked at its state in the last 0.2 s."""

    def __init__(self, extra_w):
        super().__init__()
        self._extra_w = extra_w
        self._looked_s = -1.0
        self.clock.every(0.05, self._adapt)

    def read_state(self):
        self._looked_s = self.clock.now_s()
        return super().read_state()

    def _adapt(self):
        watched = self.clock.now_s() - self._looked_s < 0.2
        self.set_level_w(IDLE_W + (self._extra_w if watched else 0.0))


@pytest.mark.parametrize("tick_s", [0.02, 0.1, 0.5])
def test_the_tick_of_the_counter_is_found_whatever_it_is(tick_s):
    tick = measure_tick(FakeGpu(tick_s=tick_s))

    assert tick.num_ticks == 30
    assert tick.period_s == pytest.approx(tick_s, rel=2e-3)
    assert tick.jitter_s < tick.resolution_s
    assert tick.resolution_s == pytest.approx((2 * 0.003 + 0.001) / 12**0.5, rel=0.05)


def test_jitter_of_the_ticks_is_told_apart_from_the_spacing_of_the_polls():
    jitter_s = 0.006
    at_s = 1000 + 0.1 * np.arange(200) + np.random.default_rng(1).normal(0.0, jitter_s, 200)

    class JitteryGpu(FakeGpu):
        def read_energy_j(self):
            self.clock.sleep_s(0.002)
            return 10.0 * float(np.searchsorted(at_s, self.clock.now_s()))

    tick = measure_tick(JitteryGpu(), num_ticks=100)

    assert tick.period_s == pytest.approx(0.1, rel=5e-3)
    assert tick.jitter_s == pytest.approx(jitter_s, rel=0.2)


def test_a_counter_that_changes_at_every_read_has_no_tick():
    tick = measure_tick(FakeGpu(tick_s=None))

    assert tick.period_s is None
    assert tick.jitter_s is None


def test_a_counter_that_stands_still_is_refused():
    gpu = FakeGpu()
    gpu.counter = lambda t_s, energy_j: 5.0

    with pytest.raises(MeasurementError, match=r"stood still for 3\.\d s"):
        measure_tick(gpu)


def test_a_counter_that_runs_backwards_is_refused():
    gpu = FakeGpu()
    gpu.counter = lambda t_s, energy_j: energy_j - (1000 if t_s > 1001 else 0)

    with pytest.raises(MeasurementError, match="ran backwards"):
        measure_tick(gpu)


def test_latency_is_that_of_each_call_on_the_clock_of_the_device():
    latencies = {each.call: each for each in measure_latencies(FakeGpu(read_s=0.003), num_calls=20)}

    assert latencies["read_energy_j"].median_s == pytest.approx(0.003)
    assert latencies["read_energy_j"].p95_s == pytest.approx(0.003)
    assert latencies["read_power_w"].median_s == 0
    assert latencies["read_state"].num_calls == 20


def test_a_read_that_the_device_does_not_answer_has_no_latency():
    class Bare(FakeGpu):
        def read_memory_power_w(self):
            raise DeviceUnsupportedError("no memory power")

    calls = {each.call for each in measure_latencies(Bare(), num_calls=2)}

    assert "read_memory_power_w" not in calls
    assert "read_energy_j" in calls


def test_the_sample_buffer_tells_its_period_and_span():
    gpu = FakeGpu(sample_s=0.02)
    gpu.clock.sleep_s(5.0)

    buffer = measure_sample_buffer(gpu)

    assert buffer.period_s == pytest.approx(0.02)
    assert buffer.num_samples == 119
    assert buffer.span_s == pytest.approx(118 * 0.02)


def test_a_buffer_of_one_sample_has_no_period():
    gpu = FakeGpu()
    gpu.read_power_samples = lambda: PowerTrace(np.array([1.0]), np.array([100.0]))

    with pytest.raises(MeasurementError, match="two samples, the buffer has 1"):
        measure_sample_buffer(gpu)


def test_an_observer_that_wakes_the_device_is_found_out():
    effect = measure_observer_effect(WatchedGpu(extra_w=30.0))

    assert effect.quiet_power_w == pytest.approx(IDLE_W, rel=0.01)
    assert effect.difference_w == pytest.approx(30.0, abs=3 * effect.difference_u_w)
    assert effect.difference_u_w < 1.0


def test_an_observer_without_effect_shows_none():
    effect = measure_observer_effect(FakeGpu())

    assert abs(effect.difference_w) < 3 * effect.difference_u_w


def test_the_uncertainty_of_an_observers_effect_is_that_of_the_ticks_of_its_windows():
    """Two reads of 3 ms, 1 ms apart, bracket each end of a window of 21 ticks (GUM 4.3.7)."""
    effect = measure_observer_effect(FakeGpu(), window_s=2.0)

    tick_u_s = (2 * 0.003 + 0.001) / sqrt(12)
    assert effect.difference_u_w == pytest.approx(IDLE_W * sqrt(2) * tick_u_s / 2.1, rel=0.01)


def test_a_steady_drift_is_not_mistaken_for_an_effect():
    gpu = FakeGpu(extra_j=lambda t_s: 0.5 * 2.0 * (t_s - 1000) ** 2)  # 2 W/s

    effect = measure_observer_effect(gpu)

    assert effect.quiet_power_w > IDLE_W + 5
    assert abs(effect.difference_w) < min(1.0, effect.difference_u_w)


def test_calibration_leaves_out_the_sensors_that_are_not_there():
    class Bare(FakeGpu):
        def read_energy_j(self):
            raise DeviceUnsupportedError("no energy counter")

        def read_power_samples(self):
            raise DeviceUnsupportedError("no buffered power samples")

    calibration = calibrate(Bare(has_counter=False, sample_s=None))

    assert calibration.tick is None
    assert calibration.samples is None
    assert calibration.observer is None


def test_calibration_of_a_whole_device_has_every_part():
    calibration = calibrate(FakeGpu(), observer_s=1.0)

    assert calibration.tick.period_s == pytest.approx(0.1, rel=2e-3)
    assert calibration.samples.period_s == pytest.approx(0.02)
    assert calibration.observer.quiet_power_w == pytest.approx(IDLE_W, rel=0.02)
    assert calibration.latencies


def test_ticks_that_come_on_time_have_no_jitter_wherever_they_begin():
    """Ten ticks of 0.1 s, the first at a quarter of one, each read just before and just after."""
    tick_s = 0.025 + 0.1 * np.arange(10)
    at_s = np.sort(np.concatenate([tick_s - 1e-5, tick_s + 1e-5]))
    polls = CounterPolls(before_s=at_s, after_s=at_s, energy_j=np.arange(1.0, 21.0) // 2)

    jitter_s, resolution_s = _jitter_s(polls, 0.1)

    assert jitter_s == pytest.approx(0.0, abs=1e-6)
    assert resolution_s == pytest.approx(2e-5 / sqrt(12))
