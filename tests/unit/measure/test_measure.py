from dataclasses import replace

import numpy as np
import pytest
from fake_gpu import DEFAULT_CLOCK_MHZ, FOREIGN_PID, IDLE_W, LOAD_W, FakeGpu

from joulelab.bench import Bench
from joulelab.core.clock import MonotonicClock
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.guard import ObserveOnly

LOCKED = OperatingPoint(sm_clock_mhz=1410)


def trial_of(workload="gemm", point=None, **knobs):
    configuration = Configuration.of(workload, knobs, point)
    return Trial(study="study", name="trial", configuration=configuration, repeat=2, attempt=1)


def measured(gpu=None, point=None, *, workload="gemm", control=None, **procedure):
    with Bench(gpu or FakeGpu(), control=control, procedure=Procedure(**procedure)) as bench:
        return bench.measure(trial_of(workload, point))


def test_constant_power_gives_the_closed_form_energy_per_unit():
    (record,) = measured()  # 300 W, 0.03 s a unit

    measurement = record.measurement
    assert measurement.valid
    assert measurement.energy_per_unit_j == pytest.approx(9.0, rel=1e-3)
    assert measurement.time_per_unit_s == pytest.approx(0.03)
    assert measurement.power_w == pytest.approx(300, rel=1e-3)
    assert measurement.idle_power_w == pytest.approx(100, rel=1e-3)
    assert measurement.dynamic_energy_per_unit_j == pytest.approx(6.0, rel=2e-3)
    assert measurement.edp_js == pytest.approx(0.27, rel=1e-3)


def test_the_error_bar_covers_the_true_energy():
    (record,) = measured()

    for window in record.measurement.windows:
        assert abs(window.energy_j - 300 * window.duration_s) < 2 * window.energy_u_j
        assert window.energy_u_j < 0.003 * window.energy_j


def test_what_was_asked_for_comes_back_with_the_result():
    (record,) = measured(point=LOCKED)

    measurement = record.measurement
    assert (measurement.study, measurement.trial) == ("study", "trial")
    assert (measurement.repeat, measurement.attempt) == (2, 1)
    assert measurement.configuration.point == LOCKED
    assert measurement.device.uuid == "FAKE-0"
    assert measurement.unit == "TFLOP"
    assert len(measurement.measurement_id) == 32


def test_every_phase_becomes_a_measurement_of_its_own():
    records = measured(workload="llama")

    assert [record.measurement.phase for record in records] == ["prefill", "decode"]
    assert len({record.measurement.measurement_id for record in records}) == 2


def test_what_the_device_did_is_observed():
    (record,) = measured(point=LOCKED)

    observed = record.measurement.observed
    assert observed.sm_clock_mhz == 1410
    assert observed.clock_residency == 1.0
    assert observed.memory_power_w == 40.0
    assert observed.activity.sm_active == 0.9
    assert observed.power_cap_share == 0.0
    assert observed.warmup_steady
    total_j = sum(window.energy_j for window in record.measurement.windows)
    assert observed.samples_energy_j == pytest.approx(total_j, rel=1e-3)
    assert 0 < observed.sampler_share < 0.5
    assert observed.host_disturbed_share is None  # in virtual time


def test_the_trace_covers_the_windows():
    (record,) = measured()

    windows = record.measurement.windows
    stop_s = windows[-1].start_s + windows[-1].duration_s
    assert record.trace.spans(windows[0].start_s, stop_s)


def test_the_point_is_in_force_during_the_windows_and_reset_after():
    gpu = FakeGpu()

    measured(gpu, LOCKED)

    assert gpu.points == [LOCKED]
    assert gpu.num_resets == 1
    assert gpu.state.sm_clock_mhz == DEFAULT_CLOCK_MHZ


def test_the_default_point_calls_no_setter():
    gpu = FakeGpu()

    measured(gpu)

    assert gpu.points == []
    assert gpu.num_resets == 0


def test_observe_only_refuses_a_point_before_anything_is_set():
    gpu = FakeGpu()

    with pytest.raises(ConfigError, match="observe-only"):
        measured(gpu, LOCKED, control=ObserveOnly(gpu, *gpu.discover()))

    assert gpu.points == []


def test_a_wrong_knob_is_raised_rather_than_measured():
    with pytest.raises(UnknownNameError, match="knob of gemm"):
        Bench(FakeGpu()).measure(trial_of(bogus=1))


def test_the_workload_stays_prepared_while_its_knobs_do():
    gpu = FakeGpu()
    with Bench(gpu, procedure=Procedure(idle_s=0)) as bench:
        bench.measure(trial_of())
        bench.measure(trial_of(point=LOCKED))
        assert gpu.num_prepared == 1

        bench.measure(trial_of(workload="stream"))

    assert gpu.num_prepared == 2


def test_idle_is_left_out_when_not_asked_for():
    (record,) = measured(idle_s=0)

    assert record.measurement.idle is None


def test_windows_are_added_until_the_interval_is_narrow_enough():
    """Power that differs from window to window by some percent needs more than three."""
    random = np.random.default_rng(0)
    steps_j = np.cumsum(random.normal(0, 12, 200))
    gpu = FakeGpu(extra_j=lambda t_s: float(np.interp(t_s - 1000, np.arange(200), steps_j)))

    (coarse,) = measured(gpu, relative_ci=1.0)
    (fine,) = measured(gpu, relative_ci=0.01)

    assert len(coarse.measurement.windows) == 3
    assert len(fine.measurement.windows) > 3


def test_windows_end_at_the_time_limit():
    random = np.random.default_rng(0)
    steps_j = np.cumsum(random.normal(0, 30, 400))
    gpu = FakeGpu(extra_j=lambda t_s: float(np.interp(t_s - 1000, np.arange(400), steps_j)))

    (record,) = measured(gpu, relative_ci=1e-6, limit_s=30.0)

    assert 20 < sum(window.duration_s for window in record.measurement.windows) <= 30


def test_units_longer_than_a_window_make_windows_of_one_unit():
    (record,) = measured(FakeGpu(unit_s=5.0))

    assert record.measurement.valid
    assert [window.work for window in record.measurement.windows] == [1, 1, 1]
    assert record.measurement.power_w == pytest.approx(300, rel=1e-3)


def test_without_a_counter_energy_comes_from_the_samples():
    (record,) = measured(FakeGpu(has_counter=False))

    assert record.measurement.valid
    assert {window.source for window in record.measurement.windows} == {"samples"}
    assert record.measurement.power_w == pytest.approx(300, rel=1e-3)


def test_a_counter_without_samples_is_checked_against_polled_power():
    (record,) = measured(FakeGpu(sample_s=None))

    assert record.measurement.valid
    assert record.measurement.observed.samples_energy_j is not None


def test_a_counter_that_ticks_seldom_is_read_until_it_shows_the_last_edge():
    (record,) = measured(FakeGpu(tick_s=0.5))

    assert record.measurement.valid
    assert record.measurement.power_w == pytest.approx(300, rel=1e-3)


def test_two_ticks_pass_between_a_new_point_and_the_load_under_it():
    class Gpu(FakeGpu):
        def apply(self, point):
            super().apply(point)
            self.applied_s = self.clock.now_s()

    gpu, ran_s = Gpu(tick_s=0.9), []
    with Bench(gpu, procedure=Procedure(settle_s=0.0, idle_s=0.0)) as bench:
        bench.measure(trial_of(point=LOCKED))  # finds the ticks
        gpu.fail_run = ran_s.append

        bench.measure(trial_of(point=LOCKED))

    assert ran_s[0] - gpu.applied_s > 2 * 0.9


def test_a_load_whose_power_rises_is_warmed_up_longer():
    def ramp_j(t_s):  # 40 W more every second, for 20 s
        risen_s = min(t_s - 1000, 20.0)
        return 20.0 * risen_s**2 + 800.0 * (t_s - 1000 - risen_s)

    (record,) = measured(FakeGpu(extra_j=ramp_j))

    assert record.measurement.windows[0].start_s > 1018
    assert record.measurement.observed.warmup_steady


def test_a_load_whose_units_grow_shorter_is_warmed_up_longer():
    gpu = FakeGpu()

    def quicken(t_s):
        gpu.unit_s = 0.03 + 0.002 * max(0.0, 1020 - t_s)

    gpu.fail_run = quicken

    (record,) = measured(gpu)

    assert record.measurement.windows[0].start_s > 1018
    assert record.measurement.observed.warmup_steady


def test_a_load_that_heats_up_is_warmed_up_longer():
    gpu = FakeGpu()

    def warming(t_s, state):
        return replace(state, temperature_c=min(50 + max(0, t_s - 1005) / 2, 60))

    gpu.states = warming

    (record,) = measured(gpu)

    assert record.measurement.observed.warmup_s > 15
    assert record.measurement.observed.warmup_steady
    assert record.measurement.valid


def test_a_load_that_never_steadies_is_measured_and_marked():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: replace(state, temperature_c=50 + 0.3 * (t_s - 1000))

    (record,) = measured(gpu, warmup_max_s=10.0)

    assert record.measurement.observed.warmup_steady is False
    assert record.measurement.valid


def test_a_warm_up_ends_with_the_unit_in_which_its_longest_time_is_over():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: replace(state, temperature_c=50 + 0.3 * (t_s - 1000))

    (record,) = measured(gpu, warmup_min_s=0.4, warmup_max_s=0.6)

    assert 0.6 <= record.measurement.observed.warmup_s < 0.75


def test_a_simulated_trial_costs_little_time_of_ours():
    gpu = FakeGpu()

    measured(gpu)

    assert gpu.num_counter_reads < 320


@pytest.mark.slow
def test_the_procedure_works_with_threads_on_the_machines_clock():
    gpu = FakeGpu(read_s=0.001, unit_s=0.01)
    gpu._clock = MonotonicClock()
    gpu.phase_s = 0.0
    gpu.levels = [(0.0, IDLE_W, 0.0)]

    (record,) = measured(
        gpu,
        idle_s=0.3,
        settle_s=0,
        warmup_min_s=0.3,
        warmup_max_s=0.5,
        window_s=0.5,
        min_windows=2,
        relative_ci=1.0,
    )

    measurement = record.measurement
    assert measurement.valid, measurement.findings
    assert 0.0 <= measurement.observed.host_disturbed_share <= 1.0
    windows = [(measurement.idle, IDLE_W), *((each, LOAD_W) for each in measurement.windows)]
    for window, power_w in windows:
        assert window.energy_j == pytest.approx(
            power_w * window.duration_s, abs=4 * window.energy_u_j
        )


def test_what_a_workload_tells_of_its_windows_is_in_the_result():
    gpu = FakeGpu()
    gpu.tell = lambda windows: {"work_b": 2.0 * sum(w.work for w in windows), "a_j": 1}

    (record,) = measured(gpu)

    assert record.measurement.figures == (("a_j", 1.0), ("work_b", 2 * record.measurement.work))


def test_a_workload_that_tells_no_number_has_failed():
    gpu = FakeGpu()
    gpu.tell = lambda windows: {"ttft_s": "soon"}

    (record,) = measured(gpu)

    (finding,) = record.measurement.findings
    assert finding.reason == "workload_failed"
    assert "figures" in finding.detail


def test_an_invalid_measurement_asks_for_no_figures():
    gpu = FakeGpu()
    gpu.pids = lambda t_s: {FOREIGN_PID}
    gpu.tell = lambda windows: {"a_j": 1.0}

    (record,) = measured(gpu)

    assert not record.measurement.valid
    assert record.measurement.figures == ()


def test_a_workload_rests_after_its_phase():
    gpu = FakeGpu()

    measured(gpu)

    assert gpu.num_rests == 1
