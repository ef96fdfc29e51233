"""The face of a simulated GPU: knobs, rights, processes, faults."""

import os

import pytest
from fake_gpu import FOREIGN_PID
from simulated_lab import Toy, ToySettings, copy, gemm, hold, settled, typical, wait

from joulelab.core.device import DeviceAddress, EventReason, GpuProcess
from joulelab.core.point import OperatingPoint
from joulelab.devices.control import OwnControl, applied
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DevicePermissionError,
    DeviceUnsupportedError,
    MeasurementError,
)
from joulelab.workloads.base import LONGEST_RUN_S
from joulelab.workloads.idle import Idle, IdleSettings
from joulelab.workloads.launch_loop import Gemm, GemmSettings


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def open_one(tmp_path, uuid="SIM-h200_sxm-0"):
    address = DeviceAddress(backend="simulated", uuid=uuid, store=str(tmp_path))
    return SimulatedDevice.open(address)


def test_a_device_makes_its_own_state_when_it_is_first_opened(tmp_path):
    device = open_one(tmp_path)

    assert device.identity().name == "NVIDIA H200"
    assert device.identity().backend == "simulated"
    assert DriverStore(tmp_path).uuids() == ("SIM-h200_sxm-0",)


def test_a_locked_clock_holds_under_load_and_ends_with_its_block(tmp_path):
    device = open_one(tmp_path)
    hold(device)

    with applied(OwnControl(device), OperatingPoint(sm_clock_mhz=1005)):
        device.clock.sleep_s(1.0)
        locked = settled(device, gemm(4096)).state.sm_clock_mhz
    device.clock.sleep_s(1.0)

    assert locked == 1005
    assert device.read_state().sm_clock_mhz == 1980
    assert DriverStore(tmp_path).locked_uuids() == ()


def test_a_default_point_calls_no_setter(tmp_path):
    device = open_one(tmp_path)
    device._driver.inject(Fault(kind="refused"))

    with applied(OwnControl(device), OperatingPoint()):
        pass


def test_a_new_clock_takes_effect_after_a_latency(tmp_path):
    device = typical(tmp_path)
    hold(device)
    device.clock.sleep_s(1.0)

    device.apply(OperatingPoint(sm_clock_mhz=1005))
    at_once = device.read_state().sm_clock_mhz
    device.clock.sleep_s(0.6)

    assert at_once == 1980
    assert device.read_state().sm_clock_mhz == 1005


def test_a_clock_off_the_grid_is_refused_with_its_neighbours(tmp_path):
    with pytest.raises(ConfigError, match="990 and 1005"):
        open_one(tmp_path).apply(OperatingPoint(sm_clock_mhz=1000))

    assert DriverStore(tmp_path).locked_uuids() == ()


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (OperatingPoint(power_limit_w=900.0), "within 200 and 700"),
        (OperatingPoint(mem_clock_mhz=3000), "2201 and 3201"),
        (OperatingPoint(sm_clock_mhz=1005, power_limit_w=10.0), "within 200 and 700"),
    ],
)
def test_a_knob_out_of_range_is_refused_and_nothing_is_set(tmp_path, point, message):
    with pytest.raises(ConfigError, match=message):
        open_one(tmp_path).apply(point)

    assert DriverStore(tmp_path).locked_uuids() == ()


def test_a_gpu_without_settable_memory_clocks_says_so(tmp_path):
    device = open_one(tmp_path, "SIM-v100_pcie-0")

    assert device.capabilities().mem_clocks_mhz == ()
    with pytest.raises(DeviceUnsupportedError, match="mem_clock_mhz cannot be set"):
        device.apply(OperatingPoint(mem_clock_mhz=877))


def test_a_slower_memory_clock_slows_a_copy_in_proportion(tmp_path):
    device = typical(tmp_path)
    device.apply(OperatingPoint(mem_clock_mhz=2201))
    hosted = device.machine.model_of(copy(), "random")

    slowdown = hosted.at(1980, 2201).duration_s / hosted.at(1980, 3201).duration_s

    assert device.read_state().mem_clock_mhz == 2201
    assert slowdown == pytest.approx(3201 / 2201, rel=0.01)


def test_setters_need_the_right_that_the_driver_wants(tmp_path):
    state = DriverStore(tmp_path).create("h200_sxm", restricted=True)
    device = SimulatedDevice(state)
    assert device.capabilities().can_set_clocks is False
    with pytest.raises(DevicePermissionError, match=r"clock guard.*--observe-only"):
        device.apply(OperatingPoint(sm_clock_mhz=1005))
    with pytest.raises(DevicePermissionError):
        device.reset()

    state.grant(os.getpid())
    device.apply(OperatingPoint(sm_clock_mhz=1005))

    assert device.capabilities().can_set_clocks is True
    assert state.settings().locked_sm_mhz == (1005, 1005)


def test_a_change_made_by_another_process_is_noticed(tmp_path):
    device = typical(tmp_path)
    hold(device)
    other = DriverStore(tmp_path).state("SIM-h200_sxm-0")

    other.lock_sm(900, 900)
    device.read_state()
    device.clock.sleep_s(0.6)
    locked = device.read_state().sm_clock_mhz
    other.reset()
    device.read_state()
    device.clock.sleep_s(0.6)

    assert (locked, device.read_state().sm_clock_mhz) == (900, 1980)


def test_a_played_program_reports_its_work_and_takes_its_time(tmp_path):
    device = typical(tmp_path)
    hosted = device.host(Toy(ToySettings()))
    hosted.prepare()
    device.apply(OperatingPoint(sm_clock_mhz=990))
    device.clock.sleep_s(1.0)
    model = device.machine.model_of(gemm(4096), "random")
    start_s = device.clock.now_s()

    work = hosted.run("gemm")

    seconds_per_tflop = model.at(990, 3201).duration_s / (2e-12 * 4096**3)
    taken_s = device.clock.now_s() - start_s
    assert taken_s == pytest.approx(work * seconds_per_tflop, rel=1e-6)
    assert 0.05 <= taken_s < 0.06
    assert hosted.unit == "TFLOP"
    assert hosted.phases == ("gemm", "wait")


def test_a_program_of_equal_parts_is_cut_where_a_whole_run_would_take_long(tmp_path):
    device = open_one(tmp_path, "SIM-a100_sxm-0")
    gemm = Gemm(GemmSettings())
    hosted = device.host(gemm)
    hosted.prepare()
    device.apply(OperatingPoint(sm_clock_mhz=1005))
    device.clock.sleep_s(1.0)
    hosted.run("gemm")
    start_s = device.clock.now_s()

    work = sum(hosted.run("gemm") for _ in range(20))

    run_s = (device.clock.now_s() - start_s) / 20
    num_launches = work / 20 / gemm.settings.work_per_launch
    assert 0.04 < run_s <= 1.01 * LONGEST_RUN_S
    assert num_launches == pytest.approx(round(num_launches))
    assert num_launches < 10
    whole = device.machine.model_of(gemm.cost().phase("gemm"), "random").at(1005, 1215)
    whole_s = whole.duration_s * num_launches / gemm.settings.num_launches
    assert run_s == pytest.approx(whole_s, rel=0.01)


def test_runs_that_follow_each_other_leave_no_gap(tmp_path):
    device = typical(tmp_path)
    hosted = device.host(Toy(ToySettings()))
    hosted.prepare()
    device.apply(OperatingPoint(sm_clock_mhz=990))
    device.clock.sleep_s(1.0)
    for _ in range(40):
        hosted.run("gemm")
    probe = device.activity()

    for _ in range(40):
        hosted.run("gemm")

    assert probe.read().gr_engine_active == pytest.approx(1.0, abs=1e-6)


def test_a_reader_that_takes_its_time_does_not_change_the_program(tmp_path):
    """A sampler's callback may see time pass; the program under it must not lose any."""

    def slow_look():
        device.read_power_w()
        device.clock.sleep_s(0.003)
        device.read_energy_j()

    device = typical(tmp_path)
    hosted = device.host(Toy(ToySettings()))
    hosted.prepare()
    device.apply(OperatingPoint(sm_clock_mhz=990))
    device.clock.sleep_s(1.0)
    start_s = device.clock.now_s()
    quiet = sum(hosted.run("gemm") for _ in range(40)) / (device.clock.now_s() - start_s)

    ticker = device.clock.every(0.02, slow_look)
    hosted.run("gemm")
    start_s = device.clock.now_s()
    watched = sum(hosted.run("gemm") for _ in range(40)) / (device.clock.now_s() - start_s)
    ticker.stop()

    assert watched == pytest.approx(quiet, rel=1e-3)


def test_a_program_holds_its_memory_until_it_closes(tmp_path):
    device = typical(tmp_path)
    hosted = device.host(Toy(ToySettings(memory_b=2e9)))
    hosted.prepare()
    device._driver.inject(Fault(kind="foreign_process", pid=FOREIGN_PID, memory_b=5))
    used_b = device.read_state().memory_used_b
    device._driver.clear_faults()
    held = device.read_processes()

    hosted.close()
    hosted.close()

    assert used_b == 2_000_000_005
    assert held == (GpuProcess(pid=os.getpid(), memory_b=2_000_000_000),)
    assert device.read_processes() == ()


def test_clocks_stay_up_while_a_program_is_prepared_though_it_holds_no_memory(tmp_path):
    device = typical(tmp_path)
    hosted = device.host(Toy(ToySettings(memory_b=0.0)))
    hosted.prepare()
    hosted.run("gemm")

    device.clock.sleep_s(20.0)
    prepared, held = device.read_state(), device.read_processes()
    hosted.close()
    device.clock.sleep_s(20.0)

    assert (prepared.sm_clock_mhz, prepared.memory_used_b) == (1980, 0)
    assert held == (GpuProcess(pid=os.getpid(), memory_b=0),)
    assert device.read_state().sm_clock_mhz == 345
    assert device.read_processes() == ()


def test_waiting_opens_no_context(tmp_path):
    device = typical(tmp_path)
    hosted = device.host(Idle(IdleSettings()))
    hosted.prepare()

    assert device.read_processes() == ()


def test_a_program_that_does_not_fit_is_refused_with_both_sizes(tmp_path):
    hosted = typical(tmp_path).host(Toy(ToySettings(memory_b=200e9)))

    with pytest.raises(DeviceError, match=r"151 GB .* 200\.0 GB"):
        hosted.prepare()


def test_a_precision_that_the_gpu_lacks_is_refused_with_those_it_has(tmp_path):
    device = typical(tmp_path, "v100_pcie")
    hosted = device.host(Toy(ToySettings()))

    with pytest.raises(ConfigError, match=r"tensor_bf16.*it has .*tensor_fp16"):
        hosted.prepare()
    assert device.read_processes() == ()


def test_a_program_must_be_prepared_and_have_the_phase(tmp_path):
    hosted = typical(tmp_path).host(Toy(ToySettings()))
    with pytest.raises(ConfigError, match="prepared"):
        hosted.run("gemm")
    hosted.prepare()

    with pytest.raises(ConfigError, match="phase must be one of"):
        hosted.run("decode")


def test_a_lost_device_answers_nothing_from_that_moment_on(tmp_path):
    device = typical(tmp_path)
    hosted = device.host(Toy(ToySettings()))
    hosted.prepare()
    device._driver.inject(Fault(kind="lost", at_s=2.0))

    def run_for_long():
        while device.clock.now_s() < 5.0:
            hosted.run("gemm")

    with pytest.raises(DeviceLostError, match="SIM-h200_sxm-0 is lost"):
        run_for_long()

    assert 2.0 <= device.clock.now_s() < 2.2
    for call in (device.read_power_w, device.read_energy_j, device.read_state, device.reset):
        with pytest.raises(DeviceLostError):
            call()


def test_a_frozen_counter_stands_still_and_catches_up(tmp_path):
    device = typical(tmp_path)
    device._driver.inject(Fault(kind="frozen_counter", at_s=10.0, until_s=20.0))
    device.clock.sleep_s(11.0)
    frozen_j = device.read_energy_j()
    device.clock.sleep_s(8.0)
    assert device.read_energy_j() == frozen_j

    device.clock.sleep_s(11.0)

    assert device.read_energy_j() == pytest.approx(30.0 * 77.8, rel=0.01)


def test_a_stale_sensor_shows_the_past(tmp_path):
    device = typical(tmp_path)
    device.clock.sleep_s(5.0)
    device._driver.inject(Fault(kind="stale_power"))
    before_w = device.read_power_w()
    samples_s = device.read_power_samples().t_s[-1]

    device.play(gemm(8192))
    device.clock.sleep_s(3.0)

    assert device.read_power_w() == before_w
    assert device.read_power_samples().t_s[-1] == samples_s
    assert device.read_energy_j() > 1000


def test_a_counter_reset_starts_again_from_zero(tmp_path):
    device = typical(tmp_path)
    device.clock.sleep_s(100.0)
    before_j = device.read_energy_j()

    device._driver.inject(Fault(kind="counter_reset"))
    after_j = device.read_energy_j()
    device.clock.sleep_s(10.0)

    assert before_j > 7000
    assert after_j == pytest.approx(0.0, abs=0.01)
    assert device.read_energy_j() == pytest.approx(778.0, rel=0.01)


def test_a_refusing_driver_sets_nothing(tmp_path):
    device = typical(tmp_path)
    device._driver.inject(Fault(kind="refused"))

    with pytest.raises(DevicePermissionError, match="refused"):
        device.apply(OperatingPoint(sm_clock_mhz=1005))
    assert DriverStore(tmp_path).locked_uuids() == ()


@pytest.mark.parametrize(
    ("reason", "event", "counter"),
    [
        ("power_cap", EventReason.SW_POWER_CAP, "power_cap_s"),
        ("sw_thermal", EventReason.SW_THERMAL, "thermal_s"),
        ("hw_thermal", EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN, "thermal_s"),
    ],
)
def test_a_throttled_device_says_why_and_for_how_long(tmp_path, reason, event, counter):
    device = typical(tmp_path)
    hold(device)
    device._driver.inject(
        Fault(kind="throttle", reason=reason, clock_mhz=1200, at_s=3.0, until_s=5.0)
    )
    device.read_state()
    device.clock.sleep_s(4.0)
    during = device.read_state()
    device.clock.sleep_s(4.0)
    after = device.read_state()

    assert during.sm_clock_mhz == 1200
    assert event in during.event_reasons
    assert getattr(after, counter) == pytest.approx(2.0, abs=0.25)
    assert after.sm_clock_mhz == 1980


def test_a_device_in_hot_air_throttles_by_itself_and_stays_below_its_limit(tmp_path):
    device = typical(tmp_path)
    device._driver.inject(Fault(kind="throttle", ambient_c=50.0))

    seen = settled(device, copy(), after_s=300.0)

    assert EventReason.SW_THERMAL in seen.state.event_reasons
    assert seen.state.sm_clock_mhz < 1980
    assert 84 <= seen.state.temperature_c <= 88
    assert seen.state.thermal_s > 100


def test_a_device_that_overheats_switches_off_for_good(tmp_path):
    device = typical(tmp_path)
    device._driver.inject(Fault(kind="throttle", ambient_c=95.0))
    device.read_state()
    device.clock.sleep_s(10.0)
    with pytest.raises(DeviceLostError):
        device.read_power_w()

    device._driver.clear_faults()
    device.clock.sleep_s(600.0)

    with pytest.raises(DeviceLostError):
        device.read_power_w()


def test_a_slow_clock_change_takes_as_long_as_the_fault_says(tmp_path):
    device = typical(tmp_path)
    hold(device)
    device._driver.inject(Fault(kind="slow_clock", latency_s=2.0))
    device.apply(OperatingPoint(sm_clock_mhz=600))
    device.clock.sleep_s(1.9)
    before_mhz = device.read_state().sm_clock_mhz

    device.clock.sleep_s(0.2)

    assert (before_mhz, device.read_state().sm_clock_mhz) == (1980, 600)


def test_a_foreign_process_is_seen_and_draws_power(tmp_path):
    device = typical(tmp_path)
    hold(device)
    device.clock.sleep_s(5.0)
    before_w = device.read_power_w()

    device._driver.inject(Fault(kind="foreign_process", pid=FOREIGN_PID, power_w=80.0, memory_b=5))
    processes = device.read_processes()
    device.clock.sleep_s(1.0)

    assert GpuProcess(pid=FOREIGN_PID, memory_b=5) in processes
    assert device.read_power_w() == pytest.approx(before_w + 80, abs=3)


def test_activity_is_a_mean_since_the_last_read(tmp_path):
    device = typical(tmp_path)
    hold(device)
    device.apply(OperatingPoint(sm_clock_mhz=990))
    device.clock.sleep_s(1.0)
    probe = device.activity()
    with pytest.raises(MeasurementError, match="some time"):
        probe.read()
    device.play(gemm(8192))
    device.clock.sleep_s(1.0)
    device.stop()
    device.clock.sleep_s(1.0)

    half = probe.read()
    device.clock.sleep_s(1.0)
    none = probe.read()

    assert half.tensor_active == pytest.approx(0.83 / 2, rel=0.01)
    assert half.gr_engine_active == pytest.approx(0.5, rel=1e-3)
    assert none.tensor_active == 0.0


def test_sensors_that_a_board_lacks_are_refused(tmp_path):
    v100 = typical(tmp_path, "v100_pcie")
    geforce = typical(tmp_path, "rtx_4090")

    for call in (v100.read_average_power_w, v100.read_memory_power_w, geforce.activity):
        with pytest.raises(DeviceUnsupportedError, match="has no"):
            call()


def test_a_waiting_phase_costs_idle_power(tmp_path):
    device = typical(tmp_path)
    hold(device)
    idle_w = settled(device, wait(0.1)).power_w

    device.clock.sleep_s(5.0)

    assert device.read_power_w() == pytest.approx(idle_w, rel=0.01)


def test_activity_is_counted_to_a_mark_and_from_it_on(tmp_path):
    device = typical(tmp_path)
    probe = device.activity()
    device.play(gemm(8192))
    device.clock.sleep_s(1.0)
    device.stop()
    probe.mark()
    device.clock.sleep_s(1.0)

    busy, idle = probe.read_to_mark(), probe.read()

    assert busy.gr_engine_active == pytest.approx(1.0, rel=1e-3)
    assert idle.gr_engine_active == pytest.approx(0.0, abs=1e-3)
