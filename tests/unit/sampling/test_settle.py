"""When a new operating point is taken to be in force."""

from dataclasses import replace

import pytest
from fake_gpu import FakeGpu

from joulelab.core.point import OperatingPoint
from joulelab.sampling.readiness import READ_BACK_PATIENCE_S, READ_BACK_PERIOD_S, settle

POINT = OperatingPoint(sm_clock_mhz=1410)


def settled_s(clock_mhz_at, *, wait_s=0.0, point=POINT):
    """How long it takes a board to settle whose clock is a function of time."""
    gpu = FakeGpu()
    begun_s = gpu.clock.now_s()
    gpu.states = lambda t_s, state: replace(state, sm_clock_mhz=clock_mhz_at(t_s - begun_s))
    settle(gpu, point, wait_s=wait_s)
    return gpu.clock.now_s() - begun_s


def test_a_point_must_read_back_twice_and_then_some_time_passes():
    assert settled_s(lambda t_s: 1410) == pytest.approx(2 * READ_BACK_PERIOD_S)
    assert settled_s(lambda t_s: 1410, wait_s=0.7) == pytest.approx(2 * READ_BACK_PERIOD_S + 0.7)


def test_a_clock_that_is_only_passed_through_is_not_in_force():
    waited_s = settled_s(lambda t_s: 1410 if t_s < 0.01 or t_s > 0.99 else 1980)

    assert waited_s == pytest.approx(1.0 + 2 * READ_BACK_PERIOD_S)


def test_a_clock_that_never_reads_back_is_not_waited_for_for_ever():
    assert settled_s(lambda t_s: 345) == pytest.approx(READ_BACK_PATIENCE_S, abs=0.1)


@pytest.mark.parametrize(
    "point", [OperatingPoint(mem_clock_mhz=2201), OperatingPoint(power_limit_w=500.0)]
)
def test_memory_clock_and_power_limit_are_waited_for_too(point):
    assert settled_s(lambda t_s: 1980, point=point) == pytest.approx(READ_BACK_PATIENCE_S, abs=0.1)
