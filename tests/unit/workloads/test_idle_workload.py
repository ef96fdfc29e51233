"""Waiting asks nothing of a device; what is only recorded runs nowhere else."""

import pytest

from joulelab.core.clock import VirtualClock
from joulelab.errors import ConfigError
from joulelab.workloads.idle import Idle, IdleSettings, Recorded, RecordedSettings


def test_idle_lets_its_duration_pass_on_the_clock_and_counts_seconds():
    clock = VirtualClock()
    idle = Idle(IdleSettings(duration_s=2.5), clock)

    work = idle.run("idle")

    assert work == 2.5
    assert clock.now_s() == 2.5


def test_idle_asks_nothing_of_the_device_but_time():
    cost = Idle(IdleSettings(duration_s=2.5)).cost()

    assert cost.phase("idle").wait_s == cost.phase("idle").work == 2.5
    assert cost.phase("idle").kernels == ()
    assert cost.resident_b == 0


def test_idle_costs_the_same_work_as_it_runs():
    idle = Idle(IdleSettings(duration_s=0.25), VirtualClock())

    assert idle.run("idle") == pytest.approx(idle.cost().phase("idle").work)


@pytest.mark.parametrize("use", [Recorded.prepare, Recorded.cost, lambda w: w.run("run")])
def test_a_recorded_program_says_where_it_runs(use):
    with pytest.raises(ConfigError, match=r"'lbm' .* --device replay --store RECORDING"):
        use(Recorded(RecordedSettings(app="lbm")))
