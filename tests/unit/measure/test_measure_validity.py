"""Every clause of the validity contract, broken on a device whose truth is known."""

import os
from dataclasses import replace

import pytest
from fake_gpu import FOREIGN_PID, FakeGpu

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.device import EventReason
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.control import OwnControl
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DevicePermissionError,
    GuardError,
    MeasurementError,
    NotAllowedError,
)

LOCKED = OperatingPoint(sm_clock_mhz=1410)
IN_WINDOWS_S = 1013.0
"""The windows run from about 1010 to 1016 s."""


def measured(gpu, point=None, *, control=None, workload="gemm"):
    configuration = Configuration.of(workload, point=point)
    with Bench(gpu, control=control, procedure=Procedure()) as bench:
        trial = Trial(study="s", name="t", configuration=configuration)
        return [record.measurement for record in bench.measure(trial)]


def reasons_of(measurement):
    return [finding.reason for finding in measurement.findings]


def test_a_clock_that_does_not_hold_is_found():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: (
        replace(state, sm_clock_mhz=1200) if t_s > IN_WINDOWS_S else state
    )

    (measurement,) = measured(gpu, LOCKED)

    assert reasons_of(measurement) == ["clock_not_held"]
    assert measurement.observed.clock_residency < 0.95


def test_throttling_by_the_power_cap_is_found():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: replace(
        state,
        power_cap_s=max(0.0, t_s - IN_WINDOWS_S),
        event_reasons=EventReason.SW_POWER_CAP,
        sm_clock_mhz=1200 if t_s > IN_WINDOWS_S else state.sm_clock_mhz,
    )

    (measurement,) = measured(gpu, LOCKED)

    assert reasons_of(measurement) == ["power_capped"]
    assert measurement.observed.power_cap_share > 0.3


def test_throttling_by_heat_is_found_at_default_clocks_too():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: replace(state, thermal_s=max(0.0, t_s - IN_WINDOWS_S))

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["throttled"]


def test_a_foreign_process_is_found():
    gpu = FakeGpu()
    gpu.pids = lambda t_s: {FOREIGN_PID} if IN_WINDOWS_S < t_s < IN_WINDOWS_S + 1.5 else set()

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["foreign_process"]


def test_a_foreign_process_that_comes_after_the_last_look_at_the_windows_is_found():
    gpu, seen_s = FakeGpu(), []
    gpu.pids = lambda t_s: seen_s.append(t_s) or set()
    (alone,) = measured(gpu)
    stop_s = alone.windows[-1].start_s + alone.windows[-1].duration_s
    last_s = max(at_s for at_s in seen_s if at_s <= stop_s)
    gpu = FakeGpu()
    gpu.pids = lambda t_s: {FOREIGN_PID} if t_s > last_s else set()

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["foreign_process"]


def test_a_foreign_process_that_was_there_before_us_is_found():
    gpu = FakeGpu()
    gpu.pids = lambda t_s: {FOREIGN_PID}

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["foreign_process"]


def test_a_foreign_process_that_comes_while_we_prepare_is_found():
    gpu = FakeGpu()
    gpu.pids = lambda t_s: {os.getpid(), FOREIGN_PID} if gpu.num_prepared else set()

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["foreign_process"]
    assert f"process {FOREIGN_PID} " in measurement.findings[0].detail


def test_our_own_process_is_not_foreign_even_under_another_id():
    """In a container the driver sees our process under the host's id."""
    gpu = FakeGpu()
    gpu.pids = lambda t_s: {FOREIGN_PID} if gpu.num_prepared else set()

    (measurement,) = measured(gpu)

    assert measurement.valid


def test_thermal_drift_is_found():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: replace(
        state, temperature_c=50.0 + max(0.0, 4 * (t_s - 1011.5))
    )

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["thermal_drift"]


def test_power_samples_that_stop_are_found():
    gpu = FakeGpu()
    gpu.sensor_until_s = IN_WINDOWS_S

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["sample_gap"]


def test_a_stale_power_sensor_disagrees_with_the_counter():
    gpu = FakeGpu()
    gpu.sensor = lambda t_s, power_w: 180.0 if t_s > 1005 else power_w

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["sources_disagree"]


def test_a_counter_that_freezes_is_found_and_gives_no_number():
    gpu = FakeGpu()
    frozen_j = []
    gpu.counter = lambda t_s, energy_j: (
        energy_j if t_s < IN_WINDOWS_S else frozen_j.append(energy_j) or frozen_j[0]
    )

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["counter_frozen"]
    with pytest.raises(MeasurementError, match="counter_frozen"):
        _ = measurement.energy_per_unit_j


def test_a_counter_that_is_reset_is_found():
    gpu = FakeGpu()
    gpu.counter = lambda t_s, energy_j: energy_j - (1e5 if t_s > IN_WINDOWS_S else 0)

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["counter_reset"]


def test_what_the_work_in_windows_that_trend_came_to_is_known():
    gpu = FakeGpu(extra_j=lambda t_s: 5.0 * max(0.0, t_s - 1009) ** 2)
    gpu.tell = lambda windows: {"gpu0.waiting_per_unit_s": 1e-3}

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["not_steady"]
    assert measurement.figures == (("gpu0.waiting_per_unit_s", 1e-3),)


def test_a_device_lost_in_a_window_invalidates_what_is_left_and_raises_nothing():
    gpu = FakeGpu()
    gpu.lost_from_s = IN_WINDOWS_S

    measurements = measured(gpu, LOCKED, workload="llama")

    assert [reasons_of(measurement) for measurement in measurements] == [["device_lost"]] * 2
    assert all(not measurement.windows for measurement in measurements)


def test_a_device_lost_in_the_second_phase_leaves_the_first_valid():
    gpu = FakeGpu()
    gpu.lost_from_s = 1022.0

    prefill, decode = measured(gpu, LOCKED, workload="llama")

    assert prefill.valid
    assert reasons_of(decode) == ["device_lost"]


def test_a_device_lost_at_the_reset_loses_no_result():
    gpu = FakeGpu()

    class LostAtReset(OwnControl):
        def reset(self):
            raise DeviceLostError("gone")

    (measurement,) = measured(gpu, LOCKED, control=LostAtReset(gpu))

    assert measurement.valid


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DevicePermissionError("needs root; start the clock guard."), "permission_denied"),
        (NotAllowedError("1410MHz is refused by the clock guard."), "not_allowed"),
    ],
)
def test_what_is_refused_is_a_finding_that_says_why(error, reason):
    class Refusing(OwnControl):
        def apply(self, point):
            raise error

    (measurement,) = measured(FakeGpu(), LOCKED, control=Refusing(FakeGpu()))

    assert reasons_of(measurement) == [reason]
    assert "the clock guard" in measurement.findings[0].detail


def test_a_lease_that_ends_during_the_windows_is_found():
    gpu = FakeGpu()

    class Ending(OwnControl):
        def require_held(self):
            raise GuardError("The lease ran out.")

    (measurement,) = measured(gpu, LOCKED, control=Ending(gpu))

    assert reasons_of(measurement) == ["lease_lost"]
    assert gpu.num_rests == 1


def test_a_workload_that_fails_is_a_finding_with_its_message():
    gpu = FakeGpu()

    def fail(t_s):
        if t_s > IN_WINDOWS_S:
            raise RuntimeError("CUDA out of memory")

    gpu.fail_run = fail

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["workload_failed"]
    assert "CUDA out of memory" in measurement.findings[0].detail


def test_a_workload_that_fails_because_the_device_went_is_a_lost_device():
    gpu = FakeGpu()

    def fail(t_s):
        if t_s > IN_WINDOWS_S:
            gpu.lost_from_s = t_s
            raise RuntimeError("CUDA error: unknown error")

    gpu.fail_run = fail

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["device_lost"]


def test_a_failed_workload_is_prepared_anew_for_the_next_trial():
    gpu = FakeGpu()
    gpu.fail_run = lambda t_s: (_ for _ in ()).throw(RuntimeError("once"))
    trial = Trial(study="s", name="t", configuration=Configuration.of("gemm"))
    with Bench(gpu, procedure=Procedure(idle_s=0)) as bench:
        bench.measure(trial)
        gpu.fail_run = lambda t_s: None

        (record,) = bench.measure(trial)

    assert gpu.num_prepared == 2
    assert record.measurement.valid


def test_a_point_that_the_device_does_not_know_is_raised():
    class Knowing(OwnControl):
        def apply(self, point):
            raise ConfigError("sm_clock_mhz must be on the grid; nearest: 1410.")

    with pytest.raises(ConfigError, match="on the grid"):
        measured(FakeGpu(), OperatingPoint(sm_clock_mhz=1411), control=Knowing(FakeGpu()))


def test_a_device_with_too_little_memory_is_told_apart_from_a_failure():
    gpu = FakeGpu()

    def refuse(t_s):
        raise DeviceError("It needs 9 GB more than there are; make it smaller.")

    gpu.fail_run = refuse

    (measurement,) = measured(gpu)

    assert reasons_of(measurement) == ["unsupported"]
    assert measurement.findings[0].detail == "It needs 9 GB more than there are; make it smaller."
