"""A GPU that is looked at while others work on it."""

from pathlib import Path

import numpy as np
import pytest
from guard_fakes import FakeDriver, serving
from simulated_lab import copy, gemm
from waiting import until

from joulelab.core.device import DeviceAddress, EventReason
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.errors import DeviceError, DeviceUnsupportedError
from joulelab.guard.settings import GuardSettings
from joulelab.live.reading import LiveGpu, read_loans


@pytest.fixture
def state(tmp_path):
    return DriverStore(tmp_path / "driver").create("h200_sxm", 0)


@pytest.fixture
def device(state):
    return SimulatedDevice(state)


def test_the_mean_is_what_the_counter_advanced_by_over_the_time_between(device):
    gpu = LiveGpu(0, device)
    first = gpu.read()
    device.play(gemm(8192))
    device.clock.sleep_s(10.0)

    later = gpu.read()

    assert (first.mean_power_w, first.energy_since_start_j) == (None, 0.0)
    assert later.mean_over_s == pytest.approx(10.0)
    assert later.energy_since_start_j == pytest.approx(later.energy_j - first.energy_j)
    assert later.mean_power_w == pytest.approx(later.energy_since_start_j / 10.0)
    assert later.mean_power_w == pytest.approx(700.0, rel=0.05)  # the power cap


@pytest.fixture
def counter_j(device, monkeypatch):
    """What each read of the energy counter gave."""
    read, found = device.read_energy_j, []

    def noted():
        found.append(read())
        return found[-1]

    monkeypatch.setattr(device, "read_energy_j", noted)
    return found


def read_nothing():
    raise DeviceError("It does not answer.")


def looks(device, gpu, *, num=8, every_s=1.0):
    readings = []
    for _ in range(num):
        device.clock.sleep_s(every_s)
        readings.append(gpu.read())
    return readings


def test_the_counter_is_read_now_and_then_and_mean_power_brings_it_forward(device, counter_j):
    device.play(gemm(8192))
    readings = looks(device, LiveGpu(0, device, counter_period_s=5.0))
    after_j = device.read_energy_j()

    steps_j = np.diff([reading.energy_j for reading in readings])
    assert len(counter_j) == 3  # of which the last is this test's own
    assert steps_j == pytest.approx(700.0, rel=0.12)  # J; the counter ticks every 0.1 s
    assert readings[-1].energy_j == pytest.approx(after_j, abs=0.12 * 700)
    assert len({reading.power_w for reading in readings}) > 5


def test_energy_never_falls_where_it_was_brought_too_far(device, counter_j, monkeypatch):
    average_w = device.read_average_power_w
    monkeypatch.setattr(device, "read_average_power_w", lambda: 1.5 * average_w())
    device.play(gemm(8192))
    readings = looks(device, LiveGpu(0, device, counter_period_s=5.0), num=6)

    energies_j = [reading.energy_j for reading in readings]
    assert counter_j[1] < energies_j[4] == energies_j[5]
    assert energies_j == sorted(energies_j)


def test_the_counter_is_read_by_looks_that_are_further_apart_than_power_is_averaged(
    device, counter_j
):
    readings = looks(device, LiveGpu(0, device, counter_period_s=15.0), every_s=2.5)

    assert [reading.energy_j for reading in readings] == counter_j


def test_the_counter_is_read_by_every_look_where_power_is_not_averaged(
    device, counter_j, monkeypatch
):
    def refuse():
        raise DeviceUnsupportedError("It averages no power.")

    monkeypatch.setattr(device, "read_average_power_w", refuse)
    readings = looks(device, LiveGpu(0, device, counter_period_s=15.0))

    assert [reading.energy_j for reading in readings] == counter_j
    assert all(reading.unread == {} for reading in readings)


def test_a_counter_that_cannot_be_read_for_a_while_is_read_by_the_next_look(device, monkeypatch):
    gpu = LiveGpu(0, device, counter_period_s=15.0)
    before, read = gpu.read(), device.read_energy_j
    monkeypatch.setattr(device, "read_energy_j", read_nothing)
    (without,) = looks(device, gpu, num=1, every_s=2.5)
    monkeypatch.setattr(device, "read_energy_j", read)
    (after,) = looks(device, gpu, num=1)

    assert without.energy_j is None
    assert "does not answer" in without.unread["energy_j"]
    assert after.energy_j > before.energy_j
    assert after.unread == {}


def test_a_throttle_is_known_by_its_reason(device, state):
    state.inject(Fault(kind="throttle", clock_mhz=600, reason="hw_thermal"))
    device.play(copy())
    device.clock.sleep_s(1.0)

    throttles = LiveGpu(0, device).read().throttles

    held = {reason for reason, holds in throttles.items() if holds}
    assert held == {EventReason.HW_THERMAL, EventReason.HW_SLOWDOWN}


def test_a_lost_gpu_has_reasons_and_no_numbers(device, state):
    gpu = LiveGpu(0, device)
    gpu.read()
    state.inject(Fault(kind="lost"))
    device.clock.sleep_s(6.0)

    lost = gpu.read()

    numbers = (lost.power_w, lost.state, lost.energy_j, lost.energy_since_start_j, lost.processes)
    assert numbers == (None,) * 5
    assert lost.mean_power_w is None
    assert lost.throttles is None
    assert all("is lost" in lost.unread[what] for what in ("power_w", "state", "energy_j"))


def test_a_counter_that_began_anew_gives_no_energy_since_the_start(device, state):
    gpu = LiveGpu(0, device)
    gpu.read()
    state.inject(Fault(kind="counter_reset"))
    device.clock.sleep_s(6.0)

    after = gpu.read()
    device.clock.sleep_s(6.0)
    later = gpu.read()

    assert (after.mean_power_w, after.energy_since_start_j) == (None, None)
    assert later.energy_since_start_j is None
    assert "began anew" in later.unread["energy_since_start_j"]
    assert later.mean_power_w == pytest.approx(later.power_w, rel=0.1)


def test_a_counter_that_began_anew_while_it_could_not_be_read_is_noticed(
    device, state, monkeypatch
):
    gpu = LiveGpu(0, device)
    gpu.read()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(device, "read_energy_j", read_nothing)
        (without,) = looks(device, gpu, num=1)
        looks(device, gpu, num=1, every_s=6.0)
    state.inject(Fault(kind="counter_reset"))
    (after,) = looks(device, gpu, num=1)

    assert without.unread == {}  # power brought it forward
    assert after.energy_since_start_j is None
    assert "began anew" in after.unread["energy_since_start_j"]


def look_twice(device):
    gpu = LiveGpu(3, device, counter_period_s=0.0)
    gpu.read()
    return gpu.read()


def test_the_driver_is_read_and_never_set(driver):
    driver.privileged = True
    driver.add().publish(average_power_mw=412_300, event_reasons=0x4)

    reading = driver.run(look_twice)

    assert (reading.index, reading.power_w, reading.energy_j) == (3, 412.3, 2180.585)
    assert reading.state.memory_used_b == 3_006_267_392
    assert reading.throttles[EventReason.SW_POWER_CAP]
    assert reading.unread == {}
    assert driver.setter_calls == []


def test_a_sensor_that_the_driver_lacks_is_missing_alone(driver):
    driver.add().publish(energy_mj=None)

    reading = driver.run(look_twice)

    assert reading.energy_j is None
    assert list(reading.unread) == ["energy_j"]
    assert reading.power_w == pytest.approx(128.966)


def test_a_gpu_that_is_split_has_no_power_of_its_own(driver):
    driver.add(mig="1")

    reading = driver.run(look_twice)

    assert reading.power_w is None
    assert "split by MIG" in reading.unread["power_w"]


ADDRESS = DeviceAddress(backend="nvml", uuid="GPU-a")


@pytest.fixture
def client(folder):
    with serving(GuardSettings(socket_path=folder / "g/guard.sock"), FakeDriver()) as client:
        yield client


def test_without_a_guard_the_reason_is_known():
    found = read_loans(Path("/tmp/joulelab-no-such-guard/guard.sock"))

    assert found.by_uuid == {}
    assert "No clock guard answers" in found.unread


def test_a_lease_shows_its_holder_and_its_point(client):
    with client.lease(ADDRESS, "joulelab measure") as lease:
        lease.apply(OperatingPoint(sm_clock_mhz=1095))
        found = read_loans(client.socket_path)

    (lease,) = found.by_uuid.values()
    assert (lease.note, lease.point) == ("joulelab measure", "1095MHz")
    until(lambda: read_loans(client.socket_path).by_uuid == {})


def test_what_could_not_be_restored_is_named(folder):
    driver = FakeDriver()
    with serving(GuardSettings(socket_path=folder / "g/guard.sock"), driver) as client:
        with client.lease(ADDRESS) as lease:
            lease.apply(OperatingPoint(sm_clock_mhz=1095))
            before = read_loans(client.socket_path)
            driver.faults.add("denied")
        until(lambda: read_loans(client.socket_path).unrestored)
        after = read_loans(client.socket_path)

    assert before.unrestored == {}
    assert list(after.unrestored) == ["GPU-a"]
    assert after.by_uuid == {}
