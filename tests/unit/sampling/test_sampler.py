import logging

import numpy as np
import pytest
from fake_gpu import FakeGpu

from joulelab.core.clock import MonotonicClock
from joulelab.core.device import Activity
from joulelab.errors import ConfigError, DeviceLostError, MeasurementError
from joulelab.sampling.sampler import PowerBuffer, Sampler


def sampled(gpu, duration_s, **options):
    sampler = Sampler(gpu, **options)
    sampler.start()
    gpu.clock.sleep_s(duration_s)
    sampler.stop()
    return sampler


def test_overlapping_buffers_become_one_trace_without_gap_or_double():
    gpu = FakeGpu()

    log = sampled(gpu, 10.0).log()

    assert np.diff(log.trace.t_s) == pytest.approx(np.full(len(log.trace) - 1, 0.02))
    assert log.trace.spans(1000.0, 1009.9)
    assert log.trace.energy_j(1001, 1009) == pytest.approx(800)


def test_the_driver_is_asked_only_about_once_a_second():
    gpu = FakeGpu()
    reads = []
    gpu.pids = lambda t_s: reads.append(t_s) or set()

    sampled(gpu, 10.0)

    assert 10 <= len(reads) <= 12


def test_clocks_are_looked_at_every_200_ms():
    gpu = FakeGpu()

    log = sampled(gpu, 5.0).log()

    assert len(log.looks) == pytest.approx(25, abs=1)
    assert np.ptp(np.diff([look.at_s for look in log.looks])) < 1e-6


@pytest.mark.parametrize("period_s", [0.01, 0.25])
def test_power_is_polled_at_the_period_that_was_asked_for(period_s):
    gpu = FakeGpu()

    log = sampled(gpu, 5.0, period_s=period_s).log()

    assert np.median(np.diff(log.trace.t_s)) == pytest.approx(period_s)
    assert log.trace.energy_j(1001, 1004) == pytest.approx(300)


def test_polled_power_has_the_time_in_the_middle_of_its_read():
    class SlowGpu(FakeGpu):
        def read_power_w(self):
            self.clock.sleep_s(0.04)
            return super().read_power_w()

    log = sampled(SlowGpu(), 2.0, period_s=0.25).log()

    assert log.trace.t_s[:3] == pytest.approx([1000.02, 1000.27, 1000.52])


def test_power_is_polled_where_the_driver_buffers_none():
    log = sampled(FakeGpu(sample_s=None), 5.0).log()

    assert np.median(np.diff(log.trace.t_s)) == pytest.approx(0.1)


def test_a_period_out_of_range_is_refused():
    with pytest.raises(ConfigError, match=r"within 0\.01 and 1"):
        Sampler(FakeGpu(), period_s=0.001)


def test_a_lost_device_is_told_rather_than_taken_for_a_quiet_one():
    gpu = FakeGpu()
    gpu.lost_from_s = 1002.0

    sampler = sampled(gpu, 5.0)

    with pytest.raises(DeviceLostError):
        sampler.raise_if_failed()
    with pytest.raises(DeviceLostError):
        sampler.log()


def test_a_reading_that_fails_ends_the_sampling_with_its_cause():
    gpu = FakeGpu()

    def broken(t_s, state):
        if t_s > 1001:
            raise ValueError("no such field")
        return state

    gpu.states = broken

    with pytest.raises(MeasurementError, match="no such field"):
        sampled(gpu, 3.0).raise_if_failed()


def test_memory_is_bounded_and_what_was_dropped_is_counted():
    gpu = FakeGpu()

    log = sampled(gpu, 20.0, max_samples=500).log()

    assert len(log.trace) <= 500
    assert log.num_dropped > 0
    assert log.num_dropped + len(log.trace) == pytest.approx(20 / 0.02 + 119, abs=3)
    assert log.trace.t_s[-1] == pytest.approx(1020, abs=0.03)


def test_throttle_counters_are_read_once_a_second():
    log = sampled(FakeGpu(), 5.0).log()

    whole = [look.at_s for look in log.looks if look.state.power_cap_s is not None]
    assert np.diff(whole) == pytest.approx(np.ones(4))


def test_a_whole_look_is_taken_when_an_edge_asks_for_it():
    gpu = FakeGpu()
    sampler = Sampler(gpu)
    sampler.start()
    gpu.clock.sleep_s(1.55)
    edge_s = gpu.clock.now_s()

    at_once = sampler.has_looked_closely(edge_s)
    gpu.clock.sleep_s(0.01)
    soon_after = sampler.has_looked_closely(edge_s)

    sampler.stop()
    assert (at_once, soon_after) == (False, True)
    assert sampler.log().looks[-1].state.power_cap_s is not None


def test_a_sampler_over_its_budget_slows_down_and_tells_twice_at_most(caplog):
    gpu = FakeGpu()

    with caplog.at_level(logging.INFO):
        log = sampled(gpu, 60.0, budget=1e-9).log()

    assert log.period_s == 1.0
    assert log.cpu_share > 0
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]
    assert "looked at every 0.4 s" in caplog.text
    for record in caplog.records:
        took, granted, _ = record.args
        assert granted == pytest.approx(1e-7)
        assert granted < took < 100, "in percent of a core"


def test_what_the_driver_is_slow_to_tell_is_asked_less_often_by_a_sampler_over_its_budget():
    slow_looks = sampled(FakeGpu(), 60.0, budget=1e-9).log().slow_looks

    first, last = slow_looks[:4], slow_looks[-4:]
    assert first[-1].at_s - first[0].at_s == pytest.approx(3.0, abs=0.5)
    assert last[-1].at_s - last[0].at_s == pytest.approx(12.0, abs=1.5)


def test_first_calls_and_short_runs_are_not_held_against_the_budget(caplog):
    with caplog.at_level(logging.INFO):
        log = sampled(FakeGpu(), 6.5, budget=1e-9).log()

    assert log.period_s == 0.2
    assert caplog.text == ""


def test_a_sampler_within_its_budget_keeps_its_period():
    assert sampled(FakeGpu(), 10.0, budget=0.5).log().period_s == 0.2


def test_the_sampler_runs_in_a_thread_on_the_machines_clock():
    gpu = FakeGpu()
    gpu._clock = MonotonicClock()
    gpu.levels = [(0.0, 100.0, 0.0)]

    log = sampled(gpu, 0.5).log()

    assert len(log.looks) >= 2
    assert log.trace is not None


@pytest.mark.parametrize("again_s", [1.01999, 1.02001])
def test_samples_that_differ_by_rounding_are_one_sample(again_s):
    buffer = PowerBuffer()
    buffer.add(np.array([1.0, 1.02]), np.array([300.0, 310.0]))

    buffer.add(np.array([again_s, 1.04]), np.array([310.0, 320.0]))

    assert buffer.trace().t_s.tolist() == [1.0, 1.02, 1.04]
    assert len(buffer) == 3


def test_a_full_buffer_drops_its_older_half_and_counts_what_it_dropped():
    buffer = PowerBuffer(max_samples=4)

    for at_s in (1.0, 2.0, 3.0):
        buffer.add(np.array([at_s, at_s + 0.5]), np.array([300.0, 310.0]))

    assert buffer.trace().t_s.tolist() == [3.0, 3.5]
    assert (len(buffer), buffer.num_dropped) == (2, 4)


def test_activities_are_counted_every_other_second_where_asked_for():
    counted = sampled(FakeGpu(), 10.0, counts_activity=True).log().slow_looks
    spared = sampled(FakeGpu(), 10.0).log().slow_looks

    told = [look.activity.sm_active for look in counted]
    assert told[1:3] == [None, 0.9]
    assert told.count(0.9) == len(counted[1:]) // 2
    assert {look.activity for look in spared} == {Activity()}


def test_activities_are_not_counted_over_too_short_a_time():
    gpu = FakeGpu()
    sampler = Sampler(gpu, counts_activity=True)
    sampler.start()
    gpu.clock.sleep_s(2.05)

    sampler.has_looked_closely(since_s=gpu.clock.now_s())
    gpu.clock.sleep_s(0.01)

    last = sampler.log().slow_looks[-1]
    assert last.at_s == pytest.approx(1002.05)
    assert last.activity == Activity()
