"""A simulated GPU on the machine's own clock, and its readings published for other programs."""

import time

import pytest
from publishing import publish
from simulated_lab import Toy, ToySettings, gemm, typical

from joulelab.core.clock import MonotonicClock
from joulelab.devices.simulated import Fault


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def readings(device):
    """The published readings, once there are some."""
    give_up_s = time.monotonic() + 10.0
    while (text := device._driver.read("readings")) is None and time.monotonic() < give_up_s:
        time.sleep(0.005)
    return dict(line.split() for line in text.splitlines())


def test_a_program_takes_real_time_on_the_wall_clock(tmp_path):
    device = typical(tmp_path, clock=MonotonicClock())
    hosted = device.host(Toy(ToySettings()))
    hosted.prepare()
    start_s = time.monotonic()

    for _ in range(4):
        hosted.run("gemm")

    assert 0.19 <= time.monotonic() - start_s < 0.6


def test_published_readings_are_those_of_the_device(tmp_path):
    device = typical(tmp_path, clock=MonotonicClock())
    ticker = publish(device)
    device.play(gemm(8192))
    time.sleep(0.3)  # until the power cap holds the clock
    await_publication(device)
    ticker.stop()

    shown = readings(device)
    samples = [line.split() for line in device._driver.read("samples").splitlines()]

    assert int(shown["sm_clock_mhz"]) == device.read_state().sm_clock_mhz
    assert int(shown["power_mw"]) > 500_000
    assert float(shown["time_s"]) == pytest.approx(time.monotonic(), abs=1.0)
    assert float(shown["tensor_active"]) > 0.5
    assert int(shown["event_reasons"]) & 0x4
    assert int(shown["power_cap_ns"]) > 50_000_000
    assert len(samples) == 119
    assert int(samples[-1][0]) / 1e6 == pytest.approx(time.time(), abs=1.0)


def await_publication(device):
    """Wait for readings that are taken from now on."""
    now_s = time.monotonic()
    while float(readings(device)["time_s"]) < now_s:
        assert time.monotonic() < now_s + 10
        time.sleep(0.005)


def published_once(device):
    ticker = publish(device, period_s=10.0)
    give_up_s = time.monotonic() + 5.0
    while device._driver.read("processes") is None and time.monotonic() < give_up_s:
        time.sleep(0.005)
    ticker.stop()


def test_a_board_without_memory_power_publishes_none(tmp_path):
    device = typical(tmp_path, "v100_pcie", clock=MonotonicClock())

    published_once(device)

    shown = readings(device)
    assert "memory_power_mw" not in shown
    assert "memory_temperature_c" not in shown
    assert shown["average_power_mw"] == shown["power_mw"]


def test_who_holds_the_device_is_published(tmp_path):
    device = typical(tmp_path, clock=MonotonicClock())
    device._driver.inject(Fault(kind="foreign_process", pid=77, memory_b=1024))

    published_once(device)

    assert device._driver.read("processes") == "77 1024"


def test_a_lost_device_publishes_nothing_more(tmp_path):
    device = typical(tmp_path, clock=MonotonicClock())
    ticker = publish(device)
    time.sleep(0.1)
    before = readings(device)
    device._driver.inject(Fault(kind="lost"))
    time.sleep(0.3)  # what was being written then is
    last = readings(device)
    time.sleep(0.05)
    ticker.stop()

    assert readings(device) == last
    assert float(last["time_s"]) - float(before["time_s"]) < 1.0
