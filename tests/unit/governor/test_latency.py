"""Latencies of a program bound how much slower it may become."""

import pytest
from governed import rules_of

from joulelab.devices.control import OwnControl
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.errors import ConfigError
from joulelab.governor import STRATEGIES
from joulelab.governor.governor import Governor
from joulelab.governor.latency import HORIZON_S, Latencies
from joulelab.governor.loads import LOADS, SimulatedLoad
from joulelab.governor.report import report
from joulelab.governor.strategy import Rules


def test_the_room_is_what_brings_the_latencies_near_their_limit():
    latencies = Latencies(0.050)
    for second in range(10):
        latencies.add(0.044, float(second))  # at a slowdown of 10 %, so 0.040 without

    assert latencies.room(10.0, 0.10) == pytest.approx(0.95 * 0.050 / 0.040 - 1)


def test_a_few_outliers_do_not_count_and_more_of_them_do():
    latencies = Latencies(0.050)
    for second in range(100):
        latencies.add(0.090 if second % 25 == 0 else 0.040, second / 10)
    assert latencies.room(10.0, 0.0) == pytest.approx(0.95 * 0.050 / 0.040 - 1)

    for second in range(10):
        latencies.add(0.090, 10.0 + second / 10)
    assert latencies.room(11.0, 0.0) == 0.0


def test_there_is_no_room_without_latencies_nor_once_all_are_old():
    latencies = Latencies(0.050)
    assert latencies.room(0.0, 0.0) == 0.0

    latencies.add(0.010, 0.0)
    assert latencies.room(HORIZON_S, 0.0) > 0
    assert latencies.room(HORIZON_S + 0.5, 0.0) == 0.0


def test_latencies_are_taken_anew_twice_a_second():
    latencies = Latencies(0.050)
    latencies.add(0.020, 0.0)
    room = latencies.room(0.0, 0.0)
    latencies.add(0.045, 0.1)

    assert latencies.room(0.4, 0.0) == room
    assert 0 < latencies.room(0.5, 0.0) < room


def test_how_the_limit_was_kept_is_said():
    latencies = Latencies(0.050)
    assert "No latency was reported" in latencies.words

    for latency_s in (0.040, 0.051, 0.049):
        latencies.add(latency_s, 0.0)
    assert "1 of 3 reported latencies were above the limit of 0.05 s" in latencies.words


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan")])
def test_a_limit_that_is_not_positive_is_refused(limit_s):
    with pytest.raises(ConfigError, match="latency_limit_s must be positive"):
        Rules(latency_limit_s=limit_s)


@pytest.mark.parametrize(
    ("reported_share", "is_slowed"), [(0.5, True), (0.99, False), (None, False)]
)
def test_a_load_is_slowed_only_as_far_as_its_latencies_allow(tmp_path, reported_share, is_slowed):
    """Under an A100's prefill, whose time follows the clock."""
    device = SimulatedDevice(DriverStore(tmp_path).create("a100_sxm", 0))
    load, rules = SimulatedLoad(device, LOADS["prefill"]), rules_of(latency_limit_s=0.1)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        if reported_share is not None:
            device.clock.every(0.5, lambda: governor.latency(0.1 * reported_share))
        load.play(60.0)

    (phase,) = governor.recogniser.phases
    assert (not governor.chooser.chosen[phase.number].is_default) is is_slowed
    assert ("No latency" in " ".join(report(governor).notes)) is (reported_share is None)


def test_latencies_that_follow_the_clock_end_below_their_limit(tmp_path):
    """4.5 % are left to it, of which a step of an A100's clock is 1.2."""
    device = SimulatedDevice(DriverStore(tmp_path).create("a100_sxm", 0))
    load, rules = SimulatedLoad(device, LOADS["prefill"]), rules_of(latency_limit_s=0.1)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        load.play(5.0)
        own_mhz, own_s = device.read_state().sm_clock_mhz, 0.95 * 0.1 / 1.045
        device.clock.every(
            0.5, lambda: governor.latency(own_s * own_mhz / device.read_state().sm_clock_mhz)
        )
        load.play(90.0)

    (phase,) = governor.recogniser.phases
    chosen_mhz = governor.chooser.chosen[phase.number].sm_clock_mhz
    assert 0.01 <= own_mhz / chosen_mhz - 1 <= 0.045
