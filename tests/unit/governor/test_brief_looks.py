"""Looks that compute nothing where nothing moved."""

import pytest

from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.errors import MeasurementError
from joulelab.governor.loads import phase_cost
from joulelab.governor.observing import LONGEST_S, Expected, Observer
from joulelab.hardware import GPUS

PERIOD_S = 0.1


class Counting(SimulatedDevice):
    """Counts how often power samples are read, which a real driver takes a millisecond for."""

    num_reads = 0

    def read_power_samples(self):
        self.num_reads += 1
        return super().read_power_samples()


@pytest.fixture
def device(tmp_path):
    device = Counting(DriverStore(tmp_path).create("h200_sxm", 0))
    run(device, "decode")
    return device


def run(device, phase, duration_s=2.0):
    device.play(phase_cost(phase, GPUS["h200_sxm"]))
    device.clock.sleep_s(duration_s)


def begun(device):
    """An observer that has seen what runs, and what it expects."""
    observer = Observer(device)
    device.clock.sleep_s(1.0)
    (seen,) = observer.look()
    device.num_reads = 0
    return observer, Expected(seen.power_w, seen.sm_clock_mhz), seen


def test_what_does_not_move_is_one_window_that_is_computed_once(device):
    observer, expected, before = begun(device)
    start_s, windows = device.clock.now_s(), ()

    while windows == ():
        device.clock.sleep_s(PERIOD_S)
        windows = observer.look(expected)

    (seen,) = windows
    assert device.num_reads == 1
    assert (seen.start_s, seen.stop_s) == (start_s, device.clock.now_s())
    assert seen.duration_s == pytest.approx(LONGEST_S, abs=1.5 * PERIOD_S)
    assert seen.num_looks == round(seen.duration_s / PERIOD_S)
    assert seen.power_w == pytest.approx(before.power_w, rel=0.01)
    assert seen.activity.dram_active == pytest.approx(before.activity.dram_active, rel=1e-3)
    assert seen.is_settled


def test_a_window_ends_at_the_look_before_what_moved(device):
    """Else half a second of the phase before would be counted as of the one that begins."""
    observer, expected, before = begun(device)
    for _ in range(5):
        device.clock.sleep_s(PERIOD_S)
        assert observer.look(expected) == ()
    changed_s = device.clock.now_s()

    run(device, "idle", 2 * PERIOD_S)
    first, second = observer.look(expected)

    assert first.stop_s == second.start_s == changed_s
    assert first.power_w == pytest.approx(before.power_w, rel=0.02)
    assert first.activity.dram_active == pytest.approx(before.activity.dram_active, rel=1e-3)
    assert second.power_w < before.power_w / 2
    assert second.activity.dram_active < 0.01
    assert device.num_reads == 1


def test_what_the_driver_cannot_count_yet_is_left_to_the_next_look(device, monkeypatch):
    """Nothing of what came before it is lost with it."""
    observer, expected, _ = begun(device)
    device.clock.sleep_s(PERIOD_S)
    assert observer.look(expected) == ()
    marked_s = device.clock.now_s()
    device.clock.sleep_s(PERIOD_S)

    with monkeypatch.context() as patched:
        patched.setattr(observer._probe, "read", refuse)
        (first,) = observer.look()
    device.clock.sleep_s(PERIOD_S)
    (second,) = observer.look()

    assert first.stop_s == second.start_s == marked_s
    assert second.stop_s == device.clock.now_s()


def refuse():
    raise MeasurementError("too soon")
