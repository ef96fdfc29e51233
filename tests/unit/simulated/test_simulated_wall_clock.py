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
    """The published readings."""
    return dict(line.split() for line in device._driver.read("readings").splitlines())


class Slept(MonotonicClock):
    """The machine's clock, and how long was slept on it."""

    asked_s = 0.0

    def sleep_s(self, duration_s):
        self.asked_s += duration_s
        super().sleep_s(duration_s)


def test_a_program_takes_real_time_on_the_wall_clock(tmp_path):
    """A busy machine makes it take longer, but it asks for no more than its own time."""
    device = typical(tmp_path, clock=(clock := Slept()))
    hosted = device.host(Toy(ToySettings()))
    hosted.prepare()
    start_s = time.monotonic()

    for _ in range(4):
        hosted.run("gemm")

    assert time.monotonic() - start_s >= 0.19
    assert clock.asked_s < 0.6


def test_published_readings_are_those_of_the_device(tmp_path):
    device = typical(tmp_path)
    publish(device)
    device.play(gemm(8192))

    before_s = time.time()
    device.clock.sleep_s(0.3)  # until the power cap holds the clock
    after_s = time.time()

    shown = readings(device)
    samples = [line.split() for line in device._driver.read("samples").splitlines()]
    assert int(shown["sm_clock_mhz"]) == device.read_state().sm_clock_mhz
    assert int(shown["power_mw"]) > 500_000
    assert float(shown["time_s"]) == pytest.approx(device.clock.now_s(), abs=0.021)
    assert float(shown["tensor_active"]) > 0.5
    assert int(shown["event_reasons"]) & 0x4
    assert int(shown["power_cap_ns"]) > 50_000_000
    assert len(samples) == 119
    assert before_s - 0.1 < int(samples[-1][0]) / 1e6 < after_s


def test_a_board_without_memory_power_publishes_none(tmp_path):
    device = typical(tmp_path, "v100_pcie")

    publish(device)

    shown = readings(device)
    assert "memory_power_mw" not in shown
    assert "memory_temperature_c" not in shown
    assert shown["average_power_mw"] == shown["power_mw"]


def test_who_holds_the_device_is_published(tmp_path):
    device = typical(tmp_path)
    device._driver.inject(Fault(kind="foreign_process", pid=77, memory_b=1024))

    publish(device)

    assert device._driver.read("processes") == "77 1024"


def test_a_lost_device_publishes_nothing_more(tmp_path):
    device = typical(tmp_path)
    publish(device)
    device.clock.sleep_s(0.1)
    before = readings(device)
    device._driver.inject(Fault(kind="lost"))

    device.clock.sleep_s(1.0)

    assert readings(device) == before
