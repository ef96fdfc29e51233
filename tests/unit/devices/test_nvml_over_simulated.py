"""The real NVML code on a simulated GPU that lives in another process, in real time."""

import time

import pytest
from fake_nvml.driver import FakeDriver
from publishing import publish
from simulated_lab import gemm
from waiting import until

from joulelab.core.clock import MonotonicClock
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.errors import DeviceLostError

UUID = "SIM-h200_sxm-0"


@pytest.fixture
def gpu(tmp_path, nvml_process):
    """A simulated H200 under load whose readings are published."""
    state = DriverStore(tmp_path / "driver").create("h200_sxm", restricted=True)
    device = SimulatedDevice(state, clock=MonotonicClock())
    device.play(gemm(8192))
    ticker = publish(device, period_s=0.01)
    until(lambda: (state.read("readings") or "").count("energy_mj"))
    yield device
    ticker.stop()
    device.close()


@pytest.fixture
def driver(tmp_path, nvml_process):
    return FakeDriver(tmp_path / "driver", nvml_process)


def test_nvml_shows_the_load_of_the_simulated_gpu(gpu, driver):
    """Its clock still falls to what the power cap allows, and a busy machine publishes late."""
    until(lambda: gpu.read_power_w() > 500 and shows_the_load(gpu, driver))


def shows_the_load(gpu, driver):
    power_w, state = driver.run(lambda d: (d.read_power_w(), d.read_state()), uuid=UUID)
    own_w, own_mhz = gpu.read_power_w(), gpu.read_state().sm_clock_mhz
    return abs(power_w / own_w - 1) < 0.15 and abs(state.sm_clock_mhz - own_mhz) <= 60


def test_the_energy_counter_keeps_up_with_the_simulated_one(gpu, driver):
    first_j, time_s, later_j = driver.run(read_twice, uuid=UUID)

    assert later_j == pytest.approx(gpu.read_energy_j(), abs=700 * 1.0)  # a second's delay
    assert later_j - first_j == pytest.approx(700 * time_s, rel=0.5)


def read_twice(device):
    start_s, first_j = time.monotonic(), device.read_energy_j()
    time.sleep(2.5)  # of which a second's delay at either end is less than half
    return first_j, time.monotonic() - start_s, device.read_energy_j()


def test_buffered_samples_keep_their_times_across_processes(gpu, driver):
    own, shared_s = until(lambda: seen_by_both(gpu, driver))

    assert max(abs(own.t_s - t_s).min() for t_s in shared_s) < 0.005


def seen_by_both(gpu, driver):
    """The GPU's own samples and the times of NVML's among them, if they are many."""
    trace = driver.run(lambda d: d.read_power_samples(), uuid=UUID)
    own = gpu.read_power_samples()
    shared_s = [t_s for t_s in trace.t_s if t_s >= own.t_s[0]]
    return (own, shared_s) if len(shared_s) > 50 else None


def test_a_clock_locked_through_nvml_slows_the_simulated_gpu(gpu, driver):
    driver.privileged = True

    driver.run(lambda d: d.apply(OperatingPoint(sm_clock_mhz=1095)), uuid=UUID)

    until(lambda: gpu.read_state().sm_clock_mhz == 1095)
    assert gpu.read_state().held == OperatingPoint(sm_clock_mhz=1095)


def test_a_gpu_lost_in_the_simulation_is_lost_to_nvml(gpu, driver):
    gpu._driver.inject(Fault(kind="lost"))

    with pytest.raises(DeviceLostError):
        driver.run(lambda d: d.read_power_w(), uuid=UUID)
