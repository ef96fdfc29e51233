"""Windows of a program, on a GPU whose power is known at every instant."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import FOREIGN_PID, IDLE_W, LOAD_W, FakeGpu

import joulelab
from joulelab import Monitor, measured
from joulelab.core.clock import MonotonicClock
from joulelab.core.device import DeviceAddress, EventReason
from joulelab.devices.simulated import DriverStore, SimulatedDevice, fleet
from joulelab.errors import ConfigError, DeviceNotFoundError, MeasurementError
from joulelab.monitor import monitor as monitor_module
from joulelab.monitor import sensors as sensors_module
from joulelab.monitor.sensors import OwnProcesses, Rapl, in_cuda_order


@pytest.fixture
def gpu():
    return FakeGpu()


@pytest.fixture
def monitor(gpu):
    with Monitor(devices=[gpu]) as monitor:
        gpu.clock.sleep_s(5.0)
        yield monitor


def work(gpu, duration_s):
    """A load that is neither announced nor in step with any sensor."""
    gpu.set_level_w(gpu.load_w)
    gpu.clock.sleep_s(duration_s)
    gpu.set_level_w(IDLE_W)


@pytest.mark.parametrize("duration_s", [0.3, 1.0, 7.7])
def test_a_window_has_the_energy_that_was_used_in_it(monitor, gpu, duration_s):
    start_s = gpu.clock.now_s()
    with monitor.window("train") as window:
        work(gpu, duration_s)
    true_j = gpu.true_energy_j(gpu.clock.now_s()) - gpu.true_energy_j(start_s)

    assert window.energy_j == pytest.approx(true_j, abs=2 * window.energy_u_j)
    assert window.energy_j == pytest.approx(LOAD_W * duration_s, rel=0.03)
    assert window.duration_s == pytest.approx(duration_s)
    assert window.power_w == pytest.approx(window.energy_j / duration_s)
    assert window.findings == ()


def test_the_clock_is_that_while_the_program_computed(gpu):
    """Of a program that loads for longer than it computes, an H200's resting clock was shown."""

    def states(at_s, state):
        works = gpu.true_power_w(at_s) > 2 * IDLE_W
        reasons = EventReason.NONE if works else EventReason.IDLE
        return replace(state, sm_clock_mhz=1980 if works else 345, event_reasons=reasons)

    gpu.states = states
    with Monitor(devices=[gpu]) as monitor:
        with monitor.window() as resting:
            gpu.clock.sleep_s(4.0)
        with monitor.window() as window:
            gpu.clock.sleep_s(6.0)
            work(gpu, 3.0)

    assert resting.gpus[gpu.identity().uuid].sm_clock_mhz == 345
    assert window.gpus[gpu.identity().uuid].sm_clock_mhz == 1980


def test_windows_nest_and_overlap(monitor, gpu):
    outer = monitor.begin("outer")
    work(gpu, 1.0)
    other = monitor.begin("other")
    work(gpu, 2.0)
    monitor.end(outer)
    work(gpu, 3.0)
    monitor.end(other)

    assert outer.energy_j == pytest.approx(3 * LOAD_W, rel=0.02)
    assert other.energy_j == pytest.approx(5 * LOAD_W, rel=0.02)


def test_several_gpus_are_measured_apart_and_add_up():
    one, other = FakeGpu(), FakeGpu(load_w=500.0)
    other.identity = lambda: replace(FakeGpu.identity(other), uuid="FAKE-1")
    with Monitor(devices=[one, other]) as monitor:
        for gpu in (one, other):
            gpu.clock.sleep_s(5.0)
        with monitor.window() as window:
            for gpu in (one, other):
                work(gpu, 2.0)

        assert window.gpus["FAKE-0"].energy_j == pytest.approx(600.0, rel=0.02)
        assert window.gpus["FAKE-1"].energy_j == pytest.approx(1000.0, rel=0.02)
        assert window.energy_j == pytest.approx(1600.0, rel=0.02)


def test_a_monitor_of_no_gpu_gives_no_energy_rather_than_none_used():
    """``Monitor(gpus=[])`` gave windows of 0.00 ± 0.00 J that were called valid."""
    with Monitor(device="simulated", gpus=[]) as monitor, monitor.window() as window:
        pass

    assert not window.valid
    assert repr(window) == f"<Window 'window', {window.duration_s:.3f} s>"
    with pytest.raises(MeasurementError, match="No GPU was watched"):
        _ = window.energy_j


def test_a_window_that_is_too_short_says_so_and_has_no_energy(monitor, gpu):
    with monitor.window() as window:
        work(gpu, 0.04)

    assert not window.valid
    assert [finding.reason for finding in window.findings] == ["too_short"]
    with pytest.raises(MeasurementError, match=r"longer than 0\.050 s"):
        _ = window.energy_j


def test_a_window_is_measured_also_if_its_block_raises(monitor, gpu):
    window = None

    def fail():
        nonlocal window
        with monitor.window() as window:
            work(gpu, 1.0)
            raise RuntimeError("out of data")

    with pytest.raises(RuntimeError):
        fail()

    assert window.energy_j == pytest.approx(LOAD_W, rel=0.03)


def test_another_program_on_the_gpu_leaves_the_window_without_a_number(monitor, gpu):
    own = os.getpid()
    gpu.pids = lambda t_s: {own, FOREIGN_PID}

    with monitor.window() as window:
        work(gpu, 3.0)

    (finding,) = window.findings
    assert finding.reason == "foreign_process"
    assert str(FOREIGN_PID) in finding.detail
    assert not window.valid


def test_a_throttled_window_keeps_its_number_and_carries_the_finding(monitor, gpu):
    gpu.states = lambda t_s, state: replace(state, thermal_s=max(0.0, t_s - 1006.0))

    with monitor.window() as window:
        work(gpu, 5.0)

    assert [finding.reason for finding in window.findings] == ["throttled"]
    assert window.energy_j == pytest.approx(5 * LOAD_W, rel=0.02)


def test_a_clock_that_somebody_locked_is_a_finding(monitor, gpu):
    gpu.state = replace(gpu.state, power_limit_w=400.0)

    with monitor.window() as window:
        work(gpu, 2.0)

    assert [finding.reason for finding in window.findings] == ["foreign_setting"]
    assert window.valid


def test_a_gpu_that_is_lost_leaves_a_reason_and_the_others_their_numbers():
    lost, sound = FakeGpu(), FakeGpu()
    sound.identity = lambda: replace(FakeGpu.identity(sound), uuid="FAKE-1")
    with Monitor(devices=[lost, sound]) as monitor:
        for gpu in (lost, sound):
            gpu.clock.sleep_s(5.0)
        lost.lost_from_s = lost.clock.now_s() + 1.0
        with monitor.window() as window:
            for gpu in (lost, sound):
                work(gpu, 2.0)

        assert window.gpus["FAKE-0"].findings[0].reason == "device_lost"
        assert window.gpus["FAKE-1"].energy_j == pytest.approx(600.0, rel=0.02)
        with pytest.raises(MeasurementError, match="fell off the bus"):
            _ = window.energy_j


def test_a_counter_that_begins_anew_leaves_no_number(monitor, gpu):
    gpu.counter = lambda t_s, energy_j: energy_j if t_s < 1007.0 else energy_j - 1000.0

    with monitor.window() as window:
        work(gpu, 8.0)

    reasons = {finding.reason for finding in window.findings}
    assert reasons & {"counter_reset", "sources_disagree"}
    assert not window.valid


def test_samples_that_stop_leave_no_number(monitor, gpu):
    gpu.sensor_until_s = gpu.clock.now_s() + 1.0

    with monitor.window() as window:
        work(gpu, 3.0)

    assert "sample_gap" in {finding.reason for finding in window.findings}
    assert not window.valid


def test_a_device_without_a_counter_is_measured_by_its_samples():
    gpu = FakeGpu(has_counter=False)
    with Monitor(devices=[gpu]) as monitor, monitor.window() as window:
        work(gpu, 4.0)

    (use,) = window.gpus.values()
    assert use.source == "samples"
    assert use.energy_j == pytest.approx(4 * LOAD_W, rel=0.02)


def test_a_long_window_outlives_the_samples_of_its_beginning(gpu, monkeypatch):
    """Hours of it and twenty minutes of samples, at a thirtieth of the scale."""
    monkeypatch.setattr(sensors_module, "KEPT_SAMPLES", sensors_module.KEPT_SAMPLES // 30)
    monkeypatch.setattr(monitor_module, "COUNT_PERIOD_S", monitor_module.COUNT_PERIOD_S / 30)
    with Monitor(devices=[gpu]) as monitor, monitor.window() as window:
        for level_w in (200.0, 500.0, 300.0):
            gpu.set_level_w(level_w)
            gpu.clock.sleep_s(50.0)

    assert window.energy_j == pytest.approx(50_000.0, rel=1e-3)
    assert window.findings == ()


def test_a_window_may_have_begun_and_ended_some_time_ago(monitor, gpu):
    work(gpu, 2.0)
    window = monitor.begin("late", ago_s=2.0)
    work(gpu, 1.0)
    gpu.clock.sleep_s(3.0)
    monitor.end(window, ago_s=3.0)

    assert window.duration_s == pytest.approx(3.0)
    assert window.energy_j == pytest.approx(3 * LOAD_W, rel=0.02)


def test_a_window_from_before_the_samples_begins_with_the_first_one(monitor, gpu):
    window = monitor.begin("early", ago_s=500.0)
    work(gpu, 2.0)
    monitor.end(window)

    (use,) = window.gpus.values()
    assert window.duration_s == pytest.approx(502.0)
    assert 2.0 < use.duration_s < 10.0
    assert use.valid


def test_the_peak_of_power_and_who_was_seen_are_told(monitor, gpu):
    with monitor.window() as idle:
        gpu.clock.sleep_s(3.0)
    gpu.pids = lambda t_s: {os.getpid()}
    with monitor.window() as busy:
        work(gpu, 1.0)
        gpu.clock.sleep_s(3.0)

    (idle_use,), (busy_use,) = idle.gpus.values(), busy.gpus.values()
    assert (idle_use.seen, busy_use.seen) == (False, True)
    assert idle_use.peak_power_w == pytest.approx(IDLE_W)
    assert busy_use.peak_power_w == pytest.approx(LOAD_W)


def test_stopping_ends_what_is_open(gpu):
    monitor = Monitor(devices=[gpu]).start()
    window = monitor.begin()
    work(gpu, 2.0)

    monitor.stop()
    monitor.stop()

    assert window.energy_j == pytest.approx(2 * LOAD_W, rel=0.05)


def test_a_window_is_ended_once_and_on_an_open_monitor(monitor, gpu):
    window = monitor.begin("step")
    with pytest.raises(ConfigError, match="at its end"):
        _ = window.energy_j
    monitor.end(window)

    with pytest.raises(ConfigError, match="end it once"):
        monitor.end(window)
    with pytest.raises(ConfigError, match="must be open"):
        Monitor(devices=[gpu]).begin()


def test_every_call_of_a_measured_function_is_a_window(monitor, gpu):
    @measured(monitor=monitor)
    def step(duration_s, *, fail=False):
        """Docstring."""
        work(gpu, duration_s)
        if fail:
            raise RuntimeError
        return "done"

    assert step(1.0) == "done"
    with pytest.raises(RuntimeError):
        step(2.0, fail=True)

    assert [round(window.energy_j / LOAD_W) for window in step.windows] == [1, 2]
    assert step.last.name == step.__name__ == "step"
    assert step.__doc__ == "Docstring."


@pytest.fixture
def real_time(tmp_path):
    """A simulated H200 that lives in real time."""
    (address,) = fleet("h200_sxm", 1, str(tmp_path))
    return SimulatedDevice(DriverStore(address.store).state(address.uuid), clock=MonotonicClock())


def test_threads_measure_windows_of_their_own_beside_each_other(real_time):
    windows = []
    with Monitor(devices=[real_time]) as monitor:

        def sleep(duration_s):
            start_s = time.monotonic()
            with monitor.window(f"{duration_s}") as window:
                time.sleep(duration_s)
            most_s = time.monotonic() - start_s
            windows.append((duration_s, window.duration_s, most_s, window.energy_j))

        threads = [threading.Thread(target=sleep, args=(0.2 + 0.1 * i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(windows) == 5
    for asked_s, took_s, most_s, energy_j in windows:
        assert asked_s <= took_s < most_s
        assert 50 * took_s < energy_j < 200 * took_s


def test_beginning_and_ending_cost_the_program_microseconds(real_time):
    with Monitor(devices=[real_time]) as monitor:
        start_s = time.thread_time()
        for _ in range(500):
            monitor.end(monitor.begin())
        took_s = (time.thread_time() - start_s) / 500

    assert took_s < 2e-4


def test_torch_is_waited_for_at_both_ends(gpu, monkeypatch):
    waits = []
    monkeypatch.setattr(monitor_module, "synchronise", lambda: waits.append(gpu.clock.now_s()))
    with Monitor(devices=[gpu]) as monitor:
        with monitor.window():
            gpu.clock.sleep_s(1.0)
        assert len(waits) == 2
    with Monitor(devices=[gpu], synchronise=False) as monitor, monitor.window():
        pass
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("environment", "gpus", "chosen"),
    [
        ({}, None, [0, 1, 2, 3]),
        ({}, [1, "SIM-h200_sxm-3"], [1, 3]),
        ({}, "SIM-h200_sxm-3", [3]),
        ({}, 2, [2]),
        ({"LOCAL_RANK": "2"}, None, [2]),
    ],
    ids=["all", "named", "one by its UUID", "one by its number", "of the rank"],
)
def test_the_gpus_are_those_named_or_the_ranks_or_all(
    tmp_path, monkeypatch, environment, gpus, chosen
):
    """A UUID that is not in a list was read letter by letter: no GPU ``S`` was found."""
    fleet("h200_sxm", 4, str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with Monitor(gpus, device="simulated", store=tmp_path) as monitor, monitor.window() as window:
        time.sleep(0.1)

    assert list(window.gpus) == [f"SIM-h200_sxm-{number}" for number in chosen]


def test_a_gpu_that_is_not_there_is_refused_and_those_there_are_named(tmp_path):
    fleet("h200_sxm", 1, str(tmp_path))

    with pytest.raises(DeviceNotFoundError, match=r"got 7: 0 \(SIM-h200_sxm-0\)"):
        Monitor([7], device="simulated", store=tmp_path)


def test_ids_of_another_namespace_are_ours_if_they_are_new(gpu):
    gpu.pids = lambda t_s: {1, 2} if t_s < 1001.0 else {1, 2, 3}
    own = OwnProcesses([99])
    own.begin(gpu)
    gpu.clock.sleep_s(2.0)

    found = own.pids(gpu)

    assert found in ({99}, {99, 3}), "the first where ids are the machine's own"


@pytest.fixture
def powercap(tmp_path):
    def zone(number, name, energy_uj):
        folder = tmp_path / number
        folder.mkdir(exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "energy_uj").write_text(f"{energy_uj}\n")
        (folder / "max_energy_range_uj").write_text("1000000\n")

    zone("intel-rapl:0", "package-0", 900_000)
    zone("intel-rapl:0:0", "dram", 5_000)
    zone("intel-rapl:1", "package-1", 0)
    zone.root = tmp_path
    return zone


def test_processors_are_read_where_they_let_themselves_be(powercap):
    rapl = Rapl(powercap.root)
    before = rapl.read_j()
    powercap("intel-rapl:0", "package-0", 100_000)  # it began anew at one joule
    powercap("intel-rapl:0:0", "dram", 25_000)
    powercap("intel-rapl:1", "package-1", 300_000)

    use = rapl.use(before, rapl.read_j())

    assert use.package_j == pytest.approx(0.2 + 0.3)
    assert use.dram_j == pytest.approx(0.02)


def test_processors_that_cannot_be_read_are_absent_with_a_reason(tmp_path, monitor, gpu):
    use = Rapl(tmp_path).use({}, {})

    with pytest.raises(MeasurementError, match="no energy counter of its processors"):
        _ = use.package_j


def test_monitors_of_one_process_read_a_gpu_once_between_them(gpu):
    def reads_of(num_monitors):
        gpu.num_counter_reads = 0
        monitors = [Monitor(devices=[gpu]).start() for _ in range(num_monitors)]
        windows = [monitor.begin() for monitor in monitors]
        work(gpu, 20.0)
        reads = gpu.num_counter_reads
        for monitor in monitors:
            monitor.stop()
        return reads, [window.energy_j for window in windows]

    alone, _ = reads_of(1)
    together, energies_j = reads_of(3)

    assert together <= 1.2 * alone
    assert energies_j == pytest.approx([20 * LOAD_W] * 3, rel=0.01)


def test_a_monitor_goes_on_when_another_of_the_same_gpu_stops(gpu):
    with Monitor(devices=[gpu]) as monitor, monitor.window() as window:
        with Monitor(devices=[gpu]):
            work(gpu, 2.0)
        work(gpu, 2.0)

    assert window.energy_j == pytest.approx(4 * LOAD_W, rel=0.02)


RANK = """
import json, os, sys, time
from joulelab import Monitor
with Monitor(device="simulated", store=sys.argv[1]) as monitor:
    with monitor.window() as window:
        time.sleep(0.3)
    other = Monitor(device="simulated", store=sys.argv[1]).start()
    with other.window() as again:
        time.sleep(0.3)
    other.stop()
print(json.dumps([list(window.gpus), list(again.gpus), window.cpu.reason]))
"""


def test_the_ranks_of_a_node_sample_each_gpu_once_and_the_processors_once(tmp_path):
    fleet("h200_sxm", 3, str(tmp_path))
    source = str(Path(joulelab.__file__).parents[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": source, "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank in range(3)
    ]
    told = [json.loads(rank.communicate(timeout=60)[0]) for rank in ranks]

    assert [gpus for gpus, _, _ in told] == [[f"SIM-h200_sxm-{rank}"] for rank in range(3)]
    assert all(gpus == again for gpus, again, _ in told)
    assert ["rank 0 of this node" in reason for _, _, reason in told] == [False, True, True]


@pytest.mark.parametrize(
    ("setting", "order"),
    [(None, "0123"), ("0,1,2,3", "0123"), ("3,1,0,2", "3102"), ("GPU-2,GPU-0,GPU-3,GPU-1", "2031")],
)
def test_a_rank_has_the_gpu_that_cuda_numbers_so(setting, order):
    there = [DeviceAddress(backend="nvml", uuid=f"GPU-{number}") for number in range(4)]

    assert [a.uuid[-1] for a in in_cuda_order(there, setting)] == list(order)


def test_gpus_that_a_scheduler_left_are_numbered_from_zero():
    there = [DeviceAddress(backend="nvml", uuid=f"GPU-{number}") for number in (4, 6)]

    assert [a.uuid for a in in_cuda_order(there, "6,4")] == ["GPU-6", "GPU-4"]


SIBLING = """
import sys
from joulelab.monitor.sensors import OwnProcesses
class Gpu:
    pid = int(sys.argv[1])
    def identity(self): return self
    uuid = "GPU-0"
    def read_processes(self): return [self]
print(Gpu.pid in OwnProcesses().pids(Gpu()))
"""


@pytest.mark.parametrize(("run_id", "known"), [("none", True), (None, False)])
def test_another_rank_of_the_same_program_is_not_foreign(run_id, known):
    """An agent of torchrun starts ranks that are each other's siblings."""
    environment = {**os.environ, "PYTHONPATH": str(Path(joulelab.__file__).parents[1])}
    environment["LOCAL_RANK"] = "1"
    environment |= {} if run_id is None else {"TORCHELASTIC_RUN_ID": run_id}
    agent = 'sleep 50 & "$0" -c "$1" $!; kill $!'

    done = subprocess.run(
        ["sh", "-c", agent, sys.executable, SIBLING],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [str(known)]


def test_a_monitor_that_was_stopped_may_be_started_again(gpu):
    monitor = Monitor(devices=[gpu]).start()
    monitor.stop()

    with monitor, monitor.window() as window:
        work(gpu, 2.0)

    assert window.energy_j == pytest.approx(2 * LOAD_W, rel=0.05)
