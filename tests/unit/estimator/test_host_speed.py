"""How fast a host is, where others slow its cores for part of the time."""

import os

import pytest

from joulelab.estimator.calibration.host_speed import (
    Round,
    host_speed,
    move_to_calmest_core,
    undisturbed,
)

CALM = Round(pace_s=30e-9, call_s={"module": 0.9e-6, "add": 7e-6})
SLOWED = Round(pace_s=57e-9, call_s={"module": 1.8e-6, "add": 10e-6})


@pytest.mark.parametrize("num_slowed", [0, 30, 90])
def test_calls_are_those_of_a_core_to_itself_however_long_others_shared_it(num_slowed):
    found = undisturbed([CALM] * (100 - num_slowed) + [SLOWED] * num_slowed)

    assert found.call_s == CALM.call_s
    assert found.pace_s == CALM.pace_s
    assert found.disturbed == pytest.approx(num_slowed / 100)


def test_a_single_fast_round_is_luck():
    lucky = Round(pace_s=15e-9, call_s={"module": 0.4e-6, "add": 3e-6})

    assert undisturbed([lucky] + [CALM] * 40).call_s == CALM.call_s


def test_what_others_never_leave_alone_is_measured_as_it_is():
    assert undisturbed([SLOWED] * 20).call_s == SLOWED.call_s


def test_without_a_gpu_modules_are_measured():
    found = host_speed("cpu", measure_s=0.1)

    assert set(found.call_s) == {"module"}
    assert 10 * found.pace_s < found.call_s["module"] < 1e-4
    assert 0 <= found.disturbed < 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system chooses no cores")
def test_a_thread_may_run_anywhere_after_it_has_moved():
    before = os.sched_getaffinity(0)

    move_to_calmest_core()

    assert os.sched_getaffinity(0) == before
