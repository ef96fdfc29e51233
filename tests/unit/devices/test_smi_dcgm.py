"""The command-line fallbacks, against tools that print what the real ones printed."""

import os

import pytest
from fake_tools import FakeDcgmi, FakeSmi, counted
from waiting import until

from joulelab.core.device import EventReason
from joulelab.core.point import OperatingPoint
from joulelab.devices.choice import choose_backend
from joulelab.devices.dcgm import DcgmDevice
from joulelab.devices.smi import SmiDevice
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    DevicePermissionError,
    DeviceUnsupportedError,
    MeasurementError,
)

UUID = "GPU-32d38ad4"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH on which there is nothing yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def smi(tools):
    return FakeSmi(tools)


@pytest.fixture
def dcgmi(tools):
    return FakeDcgmi(tools)


@pytest.fixture
def opened():
    devices = []

    def open_device(kind, uuid=UUID):
        devices.append(kind(uuid))
        return devices[-1]

    yield open_device
    for device in devices:
        device.close()


def test_smi_reads_what_the_tool_prints_in_si_units(smi, opened):
    device = opened(SmiDevice)

    state = device.read_state()

    assert device.read_power_w() == 663.05
    assert device.read_average_power_w() == 693.35
    assert (state.sm_clock_mhz, state.mem_clock_mhz) == (1425, 3201)
    assert (state.temperature_c, state.memory_temperature_c) == (58, 46)
    assert state.power_limit_w == 700
    assert state.event_reasons is EventReason.SW_POWER_CAP
    assert state.power_cap_s == pytest.approx(2.762586)
    assert state.thermal_s == pytest.approx(1.5)
    assert state.memory_used_b == 2867 * 2**20
    assert (state.gpu_utilization, state.memory_utilization) == (1.0, 0.17)


def test_smi_knows_who_the_gpu_is_and_what_it_can_be_set_to(smi, opened):
    device = opened(SmiDevice)

    identity, capabilities = device.identity(), device.capabilities()

    assert (identity.uuid, identity.name, identity.backend) == (UUID, "NVIDIA H200", "smi")
    assert (identity.ecc_enabled, identity.mig_enabled) == (True, False)
    assert identity.persistence_mode is True
    assert capabilities.sm_clocks_mhz == (1980, 1965, 345)
    assert capabilities.mem_clocks_mhz == (3201, 2201)
    assert capabilities.power_limits_w == (200, 700)
    assert not capabilities.has_energy_counter


def test_smi_follows_a_change(smi, opened):
    device = opened(SmiDevice)
    device.read_power_w()
    smi.put_gpu(power__draw__instant="700.50")

    until(lambda: device.read_power_w() == 700.50)


def test_a_value_that_the_board_lacks_is_unsupported_or_none_and_never_zero(smi, opened):
    smi.put_gpu(
        power__draw__instant="[N/A]",
        power__draw="[N/A]",
        temperature__memory="[Not Supported]",
        memory__used="[N/A]",
    )
    device = opened(SmiDevice)

    with pytest.raises(DeviceUnsupportedError):
        device.read_power_w()
    with pytest.raises(DeviceUnsupportedError):
        device.read_energy_j()
    assert device.read_state().memory_temperature_c is None
    assert device.read_state().memory_used_b is None


def test_plain_power_draw_stands_in_on_boards_without_an_instant_reading(smi, opened):
    smi.put_gpu(power__draw__instant="[N/A]", power__draw="57.12")

    assert opened(SmiDevice).read_power_w() == 57.12


def test_an_older_tool_is_asked_in_its_own_words(smi, opened):
    newer = [
        "power.draw.instant",
        "power.draw.average",
        "clocks_event_reasons.active",
        "clocks_event_reasons_counters.sw_power_cap",
        "clocks_event_reasons_counters.sw_thermal_slowdown",
        "clocks_event_reasons_counters.hw_thermal_slowdown",
    ]
    smi.put(unknown=newer)
    smi.put_gpu(power__draw="61.07", clocks_throttle_reasons__active="0x0000000000000020")
    device = opened(SmiDevice)

    state = device.read_state()

    assert device.read_power_w() == 61.07
    assert state.event_reasons is EventReason.SW_THERMAL
    assert state.power_cap_s is None
    assert state.thermal_s is None


def test_a_tool_that_ended_is_a_lost_device_and_not_its_last_reading(smi, opened):
    smi.put(ends=True)
    device = opened(SmiDevice)

    assert "ended with code 0" in until(lambda: loss_of(device))


def loss_of(device):
    """Why the device is lost; ``None`` while it is not."""
    try:
        device.read_power_w()
    except DeviceLostError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_a_tool_that_fell_silent_is_a_lost_device(smi, opened):
    smi.put(silent=True)
    device = opened(SmiDevice)

    assert "printed nothing" in until(lambda: loss_of(device))


def test_a_lost_gpu_is_told_from_its_row(smi, opened):
    device = opened(SmiDevice)
    smi.put_gpu(power__draw__instant="[GPU is lost]")

    with pytest.raises(DeviceLostError, match="GPU is lost"):
        device.read_power_w()


def test_processes_are_those_of_this_gpu(smi, opened):
    processes = opened(SmiDevice).read_processes()

    assert [(p.pid, p.memory_b) for p in processes] == [(399, 874 * 2**20), (401, None)]


def test_smi_sets_and_resets_by_the_documented_options(smi, opened):
    device = opened(SmiDevice)

    device.apply(OperatingPoint(sm_clock_mhz=1965, mem_clock_mhz=2201, power_limit_w=450))
    device.reset()
    device.reset()

    head = f"-i {UUID}"
    assert smi.settings == [
        f"{head} -pl 450",
        f"{head} -lmc 2201,2201",
        f"{head} -lgc 1965,1965",
        f"{head} -rgc",
        f"{head} -rmc",
        f"{head} -pl 700",
        f"{head} -rgc",
        f"{head} -rmc",
    ]


def test_smi_refuses_a_clock_off_the_grid_before_setting_anything(smi, opened):
    with pytest.raises(ConfigError, match="got 1970; the nearest: 1965 and 1980"):
        opened(SmiDevice).apply(OperatingPoint(sm_clock_mhz=1970))

    assert smi.settings == []


def test_smi_without_permission_says_how_to_get_it(smi, opened):
    said = "The current user does not have permission to change clocks for GPU 00000000:00:06.0."
    smi.put(refuses=[4, f"{said}\nTerminating early due to previous errors."])

    with pytest.raises(DevicePermissionError, match=r"does not have permission.*joulelab guard"):
        opened(SmiDevice).apply(OperatingPoint(sm_clock_mhz=1965))


def test_a_setting_that_the_tool_waves_through_as_a_warning_is_unsupported(smi, opened):
    said = "Setting locked GPU clocks is not supported for GPU 00000000:00:06.0."
    smi.put(refuses=[0, f"{said}\nTreating as warning and moving on.\nAll done."])

    with pytest.raises(DeviceUnsupportedError, match="is not supported"):
        opened(SmiDevice).apply(OperatingPoint(sm_clock_mhz=1965))


def test_reading_through_smi_sets_nothing(smi, opened):
    device = opened(SmiDevice)

    device.identity()
    device.capabilities()
    device.read_power_w()
    device.read_state()
    device.read_processes()

    assert smi.settings == []


def test_power_of_a_gpu_split_by_mig_is_refused(smi, opened):
    smi.put_gpu(mig__mode__current="Enabled")

    with pytest.raises(DeviceUnsupportedError, match="split by MIG"):
        opened(SmiDevice).read_power_w()


def test_an_unknown_uuid_is_not_found_and_those_there_are_named(smi):
    with pytest.raises(DeviceNotFoundError, match=f"'GPU-none'; there are: {UUID}"):
        SmiDevice("GPU-none")


def test_dcgm_adds_the_energy_counter_in_joules(smi, dcgmi, opened):
    device = opened(DcgmDevice)

    first_j = device.read_energy_j()
    until(lambda: device.read_energy_j() > first_j)

    num_rows, rest_j = divmod(first_j - 13_685.501 + 1e-6, 66.0)  # the tool prints 66 J a row
    assert num_rows >= 0
    assert rest_j == pytest.approx(0.0, abs=1e-5)
    assert device.identity().backend == "dcgm"
    assert device.capabilities().has_energy_counter


def test_dcgm_activity_is_the_mean_of_the_rows_within(smi, dcgmi, opened):
    device = opened(DcgmDevice)
    probe = device.activity()

    activity = until(lambda: counted(probe))

    assert activity.sm_active == pytest.approx(0.951)
    assert activity.tensor_active == pytest.approx(0.924)
    assert activity.fp64_active is None


def test_dcgm_activity_over_too_short_a_time_is_refused(smi, dcgmi, opened):
    probe = opened(DcgmDevice).activity()

    with pytest.raises(MeasurementError, match=r"at least 0\.2 s"):
        probe.read()


def test_dcgm_without_profiling_has_no_activity(smi, dcgmi, opened):
    dcgmi.put(fields={"156": ["13685501"]})
    device = opened(DcgmDevice)

    assert not device.capabilities().has_activity
    with pytest.raises(DeviceUnsupportedError):
        device.activity()


def test_dcgm_whose_daemon_is_down_says_so(smi, dcgmi):
    dcgmi.put(fails=(255, "Error: unable to establish a connection to the specified host."))

    with pytest.raises(DeviceError, match="nv-hostengine"):
        DcgmDevice.discover()


def choose_with(path):
    before, os.environ["PATH"] = os.environ["PATH"], path
    try:
        return choose_backend()
    finally:
        os.environ["PATH"] = before


def test_the_choice_falls_back_to_dcgm_and_says_what_is_lost(driver, smi, dcgmi, tools):
    choice = driver.call(choose_with, str(tools))

    assert choice.name == "dcgm"
    assert choice.is_fallback
    assert "no buffered power samples" in choice.why
    assert "nvml: NVML cannot be used here" in choice.why


def test_the_choice_falls_back_to_smi_where_dcgm_is_missing(driver, smi, tools):
    name, why = driver.call(choose_with, str(tools))

    assert name == "smi"
    assert "nvidia-smi has no energy counter" in why
    assert "dcgm: dcgmi is not installed" in why


def test_a_machine_without_gpus_is_told_every_reason_and_what_works_without(driver, tools):
    with pytest.raises(DeviceNotFoundError, match=r"nvml: .* dcgm: .* smi: .*--device simulated"):
        driver.call(choose_with, str(tools))


def test_the_choice_is_nvml_where_it_works(driver, tools):
    driver.add()

    choice = driver.call(choose_with, str(tools))

    assert choice == ("nvml", "nvml finds 1 GPU.")
    assert not choice.is_fallback
