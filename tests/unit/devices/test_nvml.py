"""The real NVML device against a library with the real structures and error codes."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fake_tools import FakeDcgmi, counted
from waiting import until

from joulelab.core.device import Activity, EventReason
from joulelab.core.point import OperatingPoint
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    DevicePermissionError,
    DeviceUnsupportedError,
    MeasurementError,
)


def read_everything(device):
    device.identity()
    device.capabilities()
    device.read_power_w()
    device.read_average_power_w()
    device.read_energy_j()
    device.read_power_samples()
    device.read_memory_power_w()
    device.read_state()
    device.read_processes()
    probe = device.activity()
    time.sleep(0.11)
    probe.read()


def test_readings_arrive_in_si_units(driver):
    driver.add()

    def read(device):
        return (
            device.read_power_w(),
            device.read_average_power_w(),
            device.read_energy_j(),
            device.read_memory_power_w(),
        )

    assert driver.run(read) == pytest.approx((129.170, 128.966, 2180.585, 48.943))


def test_state_holds_clocks_temperatures_limit_reasons_and_counters(driver):
    driver.add().publish(
        sm_clock_mhz=1425, temperature_c=58, event_reasons=0x4, thermal_ns=250_000_000
    )

    state = driver.run(lambda device: device.read_state())

    assert (state.sm_clock_mhz, state.mem_clock_mhz) == (1425, 3201)
    assert (state.temperature_c, state.memory_temperature_c) == (58, 46)
    assert state.power_limit_w == pytest.approx(700)
    assert state.event_reasons is EventReason.SW_POWER_CAP
    assert state.power_cap_s == pytest.approx(2.16258592)
    assert state.thermal_s == pytest.approx(0.25)
    assert state.memory_used_b == 3_006_267_392


def test_heat_is_that_of_software_and_hardware_together(driver):
    driver.add().publish(thermal_ns=250_000_000, hw_thermal_ns=500_000_000)

    assert driver.run(lambda device: device.read_state()).thermal_s == pytest.approx(0.75)


def test_a_board_whose_clocks_vary_by_themselves_has_none_that_shows_a_lock(driver):
    """Only of an H200 it is known that every board stays at its clock while nothing holds it."""
    driver.add("GPU-aa-0")
    driver.add("GPU-aa-1", name="NVIDIA A100-SXM4-80GB")

    h200, a100 = (
        driver.run(lambda device: device.capabilities(), uuid=uuid)
        for uuid in ("GPU-aa-0", "GPU-aa-1")
    )

    assert (h200.unlocked_sm_clock_mhz, h200.unlocked_mem_clock_mhz) == (1980, 3201)
    assert (a100.unlocked_sm_clock_mhz, a100.unlocked_mem_clock_mhz) == (None, None)


def test_event_reasons_that_a_newer_driver_adds_are_left_out(driver):
    driver.add().publish(event_reasons=0x1_0000_0004)

    assert driver.run(lambda d: d.read_state()).event_reasons is EventReason.SW_POWER_CAP


def test_identity_names_the_driver_settings_that_can_move_a_number(driver):
    driver.add(ecc="0")

    identity = driver.run(lambda device: device.identity())

    assert (identity.uuid, identity.name) == ("GPU-aa-0", "NVIDIA H200")
    assert (identity.backend, identity.driver_version) == ("nvml", "580.159.04")
    assert (identity.ecc_enabled, identity.mig_enabled) == (False, False)
    assert identity.persistence_mode is True
    assert identity.pci_bus_id == "00000000:01:00.0"


def test_capabilities_are_those_of_the_board(driver):
    driver.add()

    capabilities = driver.run(lambda device: device.capabilities())

    assert len(capabilities.sm_clocks_mhz) == 110
    assert (capabilities.sm_clocks_mhz[0], capabilities.sm_clocks_mhz[-1]) == (1980, 345)
    assert capabilities.mem_clocks_mhz == (3201, 2201)
    assert capabilities.power_limits_w == pytest.approx((200, 700))
    assert capabilities.default_power_limit_w == pytest.approx(700)
    assert capabilities.has_energy_counter
    assert capabilities.has_power_samples
    assert capabilities.has_memory_power
    assert capabilities.has_activity


def test_a_sensor_that_the_board_lacks_is_unsupported_and_never_zero(driver):
    driver.add().publish(energy_mj=None, memory_power_mw=None, sm_active=None)
    (driver.root / "GPU-aa-0/samples").unlink()

    def refusals(device):
        reads = device.read_energy_j, device.read_memory_power_w, device.read_power_samples
        said = []
        for read in (*reads, device.activity):
            with pytest.raises(DeviceUnsupportedError) as refusal:
                read()
            said.append(str(refusal.value))
        return said, device.capabilities()

    said, capabilities = driver.run(refusals)

    assert len(said) == 4
    assert not capabilities.has_energy_counter
    assert not capabilities.has_power_samples
    assert not capabilities.has_memory_power
    assert not capabilities.has_activity


def test_memory_in_use_is_without_the_drivers_own_whatever_its_branch(driver, oldest_driver):
    """The plain call counts what the driver reserves as used, but only since branch 510."""
    for each in (driver, oldest_driver):
        each.add().publish(memory_used_b=5_000_000_000)

        assert each.run(lambda d: d.read_state()).memory_used_b == 5_000_000_000


def test_memory_that_no_driver_tells_is_unread_and_never_zero(driver):
    driver.add().publish(memory_used_b=None)

    assert driver.run(lambda d: d.read_state()).memory_used_b is None


def test_utilization_is_a_share_of_one_and_unread_where_the_driver_tells_none(driver):
    gpu = driver.add()

    known = driver.run(lambda device: device.read_state())
    gpu.publish(dram_active=None)
    unknown = driver.run(lambda device: device.read_state())

    assert (known.gpu_utilization, known.memory_utilization) == (0.99, 0.16)
    assert (unknown.gpu_utilization, unknown.memory_utilization) == (None, None)


def test_a_live_look_leaves_only_the_counters_out(driver):
    driver.add()

    whole, live = driver.run(lambda d: (d.read_state(), d.read_live_state()))

    counters = {"power_cap_s": None, "thermal_s": None, "memory_temperature_c": None}
    assert whole.power_cap_s is not None
    assert live == replace(whole, **counters)


def test_a_brief_look_leaves_memory_and_utilization_out(driver):
    driver.add()

    brief = driver.run(lambda device: device.read_brief_state())

    assert (brief.memory_used_b, brief.gpu_utilization) == (None, None)


def test_an_old_driver_answers_by_its_own_names_and_numbers(old_driver):
    old_driver.add(driver_version="535.183.06").publish(
        event_reasons=0x20, thermal_ns=3_000_000_000, temperature_c=71
    )

    state = old_driver.run(lambda device: device.read_state())
    capabilities = old_driver.run(lambda device: device.capabilities())

    assert state.event_reasons is EventReason.SW_THERMAL
    assert state.thermal_s == pytest.approx(3)
    assert state.temperature_c == 71
    assert not capabilities.has_activity
    assert not capabilities.has_memory_power


def test_power_usage_stands_in_where_the_instant_field_is_missing(driver):
    driver.add().publish(power_mw=None, average_power_mw=61_500)

    assert driver.run(lambda device: device.read_power_w()) == pytest.approx(61.5)


@pytest.mark.parametrize("clock", [time.CLOCK_REALTIME, time.CLOCK_BOOTTIME])
def test_buffered_samples_are_moved_to_the_monotonic_clock(driver, clock):
    gpu, before_s = driver.add(), time.monotonic()
    gpu.publish_samples([(40, 700_000), (20, 710_500), (0, 690_250)], clock=clock)
    after_s = time.monotonic()

    trace = driver.run(lambda device: device.read_power_samples())

    assert trace.power_w == pytest.approx([700.0, 710.5, 690.25])
    assert np.diff(trace.t_s) == pytest.approx([0.02, 0.02], abs=1e-5)
    assert before_s - 0.005 < trace.t_s[-1] < after_s + 0.005


def test_samples_that_no_clock_of_the_machine_stamped_are_refused(driver):
    driver.add().write(samples="123456789012345678 700000")

    with pytest.raises(DeviceError, match="at most a minute old"):
        driver.run(lambda device: device.read_power_samples())


def test_samples_across_a_step_of_the_wall_clock_are_refused_once(driver):
    """NTP stepping the clock would shift the samples against the window that they fill."""
    driver.add()

    def read_across_a_step(device):
        from joulelab.devices import nvml_library

        device.read_power_samples()
        last = device._samples._last
        device._samples._last = nvml_library.Alignment(
            clock=last.clock, offset_s=last.offset_s - 0.8, at_s=last.at_s
        )
        with pytest.raises(MeasurementError, match=r"\+0\.800 s") as refusal:
            device.read_power_samples()
        return str(refusal.value), len(device.read_power_samples())

    said, num_samples = driver.run(read_across_a_step)

    assert "wall clock" in said
    assert num_samples == 2


def test_activity_is_a_share_of_one(driver):
    driver.add()

    def read(device):
        probe = device.activity()
        time.sleep(0.11)
        return probe.read()

    activity = driver.run(read)

    assert activity.sm_active == pytest.approx(0.9645)
    assert activity.tensor_active == pytest.approx(0.9362)
    assert activity.fp64_active == 0


def test_activity_is_counted_to_a_mark_and_from_it_on(driver):
    """Computing metrics takes an H200's driver 1.4 to 1.9 ms, and a sample alone 0.25 ms."""
    driver.add()

    def read(device):
        probe = device.activity()
        time.sleep(0.11)
        probe.mark()
        with pytest.raises(MeasurementError, match="at least"):
            probe.mark()
        first = probe.read_to_mark()
        with pytest.raises(MeasurementError, match="at least"):
            probe.read()
        time.sleep(0.11)
        return first, probe.read(), device.read_sm_clock_mhz(), device.read_state().sm_clock_mhz

    first, second, clock_mhz, state_mhz = driver.run(read)

    assert first.sm_active == second.sm_active == pytest.approx(0.9645)
    assert clock_mhz == state_mhz


def read_side_by_side(uuids, num_reads):
    """Count the activity of every GPU from a thread of its own, over and over."""
    from joulelab.devices.nvml import NvmlDevice

    def read(uuid):
        device = NvmlDevice(uuid)
        probe = device.activity()
        found = []
        for _ in range(num_reads):
            time.sleep(0.101)
            found.append(probe.read().sm_active)
        device.close()
        return found

    with ThreadPoolExecutor(len(uuids)) as threads:
        return list(threads.map(read, uuids))


def test_activities_of_two_gpus_are_never_read_at_once(driver):
    """Two threads that read those of two H100s crashed the process within NVML."""
    uuids = ["GPU-aa-0", "GPU-aa-1", "GPU-aa-2"]
    for uuid in uuids:
        driver.add(uuid)

    found = driver.call(read_side_by_side, uuids, 5)

    assert found == [[pytest.approx(0.9645)] * 5] * 3


@pytest.fixture
def without_gpm(driver):
    """A GPU of DCGM's whose NVML has no GPM, as V100 and A100 have none."""
    driver.add("GPU-32d38ad4").publish(sm_active=None)
    return driver


def with_tools(device, path, act):
    before, os.environ["PATH"] = os.environ["PATH"], path
    try:
        return act(device)
    finally:
        os.environ["PATH"] = before


def probed(device):
    probe = device.activity()
    return until(lambda: counted(probe)), device.capabilities(), device.read_energy_j()


def test_dcgm_counts_the_activities_that_nvml_has_none_of(without_gpm, tmp_path):
    """Sweeps of V100 and A100 through NVML had no activities, which power models need."""
    FakeDcgmi(tmp_path)

    activity, capabilities, energy_j = without_gpm.run(
        with_tools, str(tmp_path), probed, uuid="GPU-32d38ad4"
    )

    assert activity.tensor_active == pytest.approx(0.924)
    assert activity.dram_active == pytest.approx(0.171)
    assert capabilities.has_activity
    assert capabilities.activity_source == "dcgm"
    assert energy_j == pytest.approx(2180.585)  # NVML's own


@pytest.mark.parametrize(
    "state",
    [
        {"fails": (255, "Error: unable to establish a connection to the specified host.")},
        {"fields": {"156": ["13685501"]}},
    ],
    ids=["no daemon", "no profiling"],
)
def test_a_dcgm_that_cannot_count_is_not_said_to(state, without_gpm, tmp_path):
    FakeDcgmi(tmp_path).put(**state)

    capabilities = without_gpm.run(
        with_tools, str(tmp_path), lambda device: device.capabilities(), uuid="GPU-32d38ad4"
    )

    assert not capabilities.has_activity
    assert capabilities.activity_source is None


def test_a_gpu_that_dcgm_does_not_know_has_no_activities_of_another(driver, tmp_path):
    driver.add().publish(sm_active=None)
    FakeDcgmi(tmp_path)

    capabilities = driver.run(with_tools, str(tmp_path), lambda device: device.capabilities())

    assert not capabilities.has_activity


def test_nvml_counts_itself_where_it_can(driver, tmp_path):
    driver.add("GPU-32d38ad4")
    FakeDcgmi(tmp_path)

    activity, capabilities, _ = driver.run(with_tools, str(tmp_path), probed, uuid="GPU-32d38ad4")

    assert activity.sm_active == pytest.approx(0.9645)
    assert capabilities.activity_source is None


def test_a_dcgm_that_dies_costs_the_activities_and_not_the_gpu(without_gpm, tmp_path):
    """A tool that ended would have been a lost GPU, which takes no more trials."""
    dcgmi = FakeDcgmi(tmp_path)

    def read_after_its_death(device):
        capabilities = device.capabilities()
        dcgmi.put(fails=(1, "Host engine went away."))
        return capabilities.has_activity, device.activity().read(), device.read_energy_j()

    counted, activity, energy_j = without_gpm.run(
        with_tools, str(tmp_path), read_after_its_death, uuid="GPU-32d38ad4"
    )

    assert counted
    assert activity == Activity()
    assert energy_j == pytest.approx(2180.585)


def test_activity_over_too_short_a_time_is_refused_because_the_driver_answers_zeros(driver):
    driver.add()

    with pytest.raises(MeasurementError, match=r"at least 0\.1 s"):
        driver.run(lambda device: device.activity().read())


def test_processes_are_listed_with_their_memory(driver):
    driver.add(processes="399 916455424\n4242 1048576")

    processes = driver.run(lambda device: device.read_processes())

    assert [(p.pid, p.memory_b) for p in processes] == [(399, 916455424), (4242, 1048576)]


def test_no_reading_ever_calls_a_setter(driver):
    driver.privileged = True
    driver.add(processes="399 916455424")

    driver.run(read_everything)

    assert driver.setter_calls == []


def test_apply_locks_the_clocks_and_limits_the_power(driver):
    driver.privileged = True
    gpu = driver.add()
    point = OperatingPoint(sm_clock_mhz=1095, mem_clock_mhz=2201, power_limit_w=412.5)

    driver.run(lambda device, point: device.apply(point), point)

    assert gpu.read("locked_sm_mhz") == "1095 1095"
    assert gpu.read("locked_mem_mhz") == "2201 2201"
    assert gpu.read("power_limit_mw") == "412500"


def test_a_power_limit_is_set_to_the_nearest_milliwatt(driver):
    """256.4 times 1000 is a little less than 256400: cut off, it is a milliwatt less."""
    driver.privileged = True
    gpu = driver.add()

    driver.run(lambda device: device.apply(OperatingPoint(power_limit_w=256.4)))

    assert gpu.read("power_limit_mw") == "256400"


def test_apply_leaves_alone_the_knobs_that_the_point_leaves_to_the_driver(driver):
    driver.privileged = True
    driver.add()

    driver.run(lambda device, point: device.apply(point), OperatingPoint(sm_clock_mhz=1095))

    assert driver.setter_calls == ["nvmlDeviceSetGpuLockedClocks GPU-aa-0 1095 1095"]


def test_reset_unlocks_the_clocks_and_restores_a_limit_that_it_set(driver):
    driver.privileged = True
    gpu = driver.add()

    def apply_and_reset(device):
        device.apply(OperatingPoint(sm_clock_mhz=1095, mem_clock_mhz=2201, power_limit_w=400))
        device.reset()
        device.reset()

    driver.run(apply_and_reset)

    assert gpu.read("locked_sm_mhz") is None
    assert gpu.read("locked_mem_mhz") is None
    assert gpu.read("power_limit_mw") is None


def test_reset_keeps_a_power_limit_that_the_site_chose(driver):
    driver.privileged = True
    gpu = driver.add(power_limit_mw="500000")

    driver.run(lambda device: device.reset())

    assert gpu.read("power_limit_mw") == "500000"


def test_reset_works_where_memory_clocks_cannot_be_locked(old_driver):
    old_driver.privileged = True
    gpu = old_driver.add(locked_sm_mhz="1095 1095")

    old_driver.run(lambda device: device.reset())

    assert gpu.read("locked_sm_mhz") is None


@pytest.mark.parametrize(
    ("point", "said"),
    [
        (OperatingPoint(sm_clock_mhz=1000), "sm_clock_mhz .* got 1000; the nearest: 990 and 1005"),
        (OperatingPoint(sm_clock_mhz=2000), "the nearest: 1980"),
        (OperatingPoint(mem_clock_mhz=3000), "mem_clock_mhz .* the nearest: 2201 and 3201"),
        (OperatingPoint(power_limit_w=150), "power_limit_w must be within 200 and 700, got 150"),
        (OperatingPoint(sm_clock_mhz=1095, power_limit_w=701), "got 701"),
    ],
)
def test_a_point_that_the_board_cannot_hold_is_refused_before_anything_is_set(driver, point, said):
    driver.privileged = True
    driver.add()

    with pytest.raises(ConfigError, match=said):
        driver.run(lambda device, point: device.apply(point), point)

    assert driver.setter_calls == []


@pytest.mark.parametrize("call", ["apply", "reset"])
def test_a_setter_without_privilege_says_what_is_missing_and_how_to_get_it(driver, call):
    gpu = driver.add()

    def attempt(device, call):
        device.reset() if call == "reset" else device.apply(OperatingPoint(sm_clock_mhz=1095))

    with pytest.raises(DevicePermissionError, match=r"CAP_SYS_ADMIN.*joulelab guard.*--observe-"):
        driver.run(attempt, call)

    assert gpu.read("locked_sm_mhz") is None


def test_a_process_that_the_store_makes_an_administrator_may_set(driver):
    driver.add(administrators=str(driver.call(os.getpid)))

    driver.run(lambda device: device.apply(OperatingPoint(sm_clock_mhz=1095)))

    assert driver.setter_calls == ["nvmlDeviceSetGpuLockedClocks GPU-aa-0 1095 1095"]


def test_a_refusing_driver_refuses_even_root(driver):
    driver.privileged = True
    driver.add(faults="refused")

    with pytest.raises(DevicePermissionError):
        driver.run(lambda device: device.apply(OperatingPoint(sm_clock_mhz=1095)))


@pytest.mark.parametrize(
    "read",
    ["read_power_w", "read_energy_j", "read_state", "read_power_samples", "read_processes"],
)
def test_a_gpu_that_fell_off_the_bus_is_lost_whatever_is_read(driver, read):
    gpu = driver.add()

    def lose_and_read(device, path, read):
        with open(path, "w") as faults:
            faults.write("lost")
        getattr(device, read)()

    with pytest.raises(DeviceLostError, match="GPU is lost"):
        driver.run(lose_and_read, str(gpu.folder / "faults"), read)


def test_a_lost_gpu_is_left_out_of_those_that_can_be_opened(driver):
    driver.add("GPU-aa-0", faults="lost")
    driver.add("GPU-aa-1")

    assert [address.uuid for address in driver.call(discover)] == ["GPU-aa-1"]


def discover():
    from joulelab.devices.nvml import NvmlDevice

    return NvmlDevice.discover()


def test_discovery_keeps_the_order_of_the_driver(driver):
    for index in (0, 1, 2):
        driver.add(f"GPU-aa-{index}")

    addresses = driver.call(discover)

    assert [a.uuid for a in addresses] == ["GPU-aa-0", "GPU-aa-1", "GPU-aa-2"]
    assert {a.backend for a in addresses} == {"nvml"}


def test_an_unknown_uuid_is_not_found_and_those_there_are_named(driver):
    driver.add()

    with pytest.raises(DeviceNotFoundError, match="'GPU-bb-0'; there are: GPU-aa-0"):
        driver.run(lambda device: None, uuid="GPU-bb-0")


def test_without_a_driver_discovery_says_so(driver):
    with pytest.raises(DeviceError, match="NVML cannot be used here: Driver Not Loaded"):
        driver.call(discover)


def test_a_mig_instance_is_refused_by_its_uuid(driver):
    driver.add()

    with pytest.raises(DeviceUnsupportedError, match="of the whole GPU only"):
        driver.run(lambda device: None, uuid="MIG-1234")


@pytest.mark.parametrize(
    "read",
    ["read_power_w", "read_energy_j", "read_power_samples", "read_memory_power_w", "activity"],
)
def test_energy_and_power_of_a_gpu_split_by_mig_are_refused(driver, read):
    driver.add(mig="1")

    with pytest.raises(DeviceUnsupportedError, match="split by MIG"):
        driver.run(lambda device, read: getattr(device, read)(), read)


def test_a_gpu_split_by_mig_is_identified_but_never_set(driver):
    driver.privileged = True
    driver.add(mig="1")

    def attempt(device):
        with pytest.raises(DeviceUnsupportedError):
            device.apply(OperatingPoint(sm_clock_mhz=1095))
        return device.identity()

    assert driver.run(attempt).mig_enabled is True
    assert driver.setter_calls == []


def test_a_counter_that_starts_again_is_read_as_it_is(driver):
    gpu = driver.add()

    def read_twice(device, path):
        before_j = device.read_energy_j()
        with open(path, "w") as readings:
            readings.write("energy_mj 12\n")
        return before_j, device.read_energy_j()

    assert driver.run(read_twice, str(gpu.folder / "readings")) == pytest.approx((2180.585, 0.012))


def test_closing_twice_is_safe(driver):
    driver.add()

    driver.run(lambda device: device.close())
