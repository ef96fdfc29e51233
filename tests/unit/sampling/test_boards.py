"""What boards of one trial use together, and when their sum is none."""

from dataclasses import replace

import numpy as np
import pytest
from fake_gpu import FOREIGN_PID, IDLE_W, LOAD_W, FakeGpu

from joulelab.core.energy import EnergyWindow
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trace import PowerTrace
from joulelab.sampling.boards import Boards, _trace, summed
from joulelab.sampling.readiness import WarmUp, warm_up
from joulelab.sampling.window_loop import WindowLoop


class Second(FakeGpu):
    """Another board of the machine, on the clock of the first, on which nothing runs."""

    def __init__(self, first):
        super().__init__()
        self._clock = first.clock

    def identity(self):
        return replace(super().identity(), uuid="FAKE-1")


def judged(first, second):
    """The verdict on two windows in which the first board works and the second idles."""

    def run():
        first.set_level_w(LOAD_W)
        first.clock.sleep_s(first.unit_s)
        return 1.0

    point = OperatingPoint()
    with Boards([first, second]).watched(Procedure(), point, point) as instruments:
        loop = WindowLoop(first.clock, run, instruments, instruments.check)
        warm_up(loop, instruments.lead, first.clock, Procedure())
        return instruments.judge(
            loop.windows(2, 0.5),
            own_pids=frozenset(),
            pids_on=lambda device: frozenset(device.pids(first.clock.now_s())),
            warmup=WarmUp(duration_s=1.0, steady=True, even=True),
        )


def test_errors_of_boards_are_independent():
    one = EnergyWindow(
        start_s=0.0, duration_s=2.0, energy_j=10.0, energy_u_j=3.0, source="counter", work=5.0
    )

    both = summed([one, replace(one, energy_j=20.0, energy_u_j=4.0)])

    assert (both.energy_j, both.energy_u_j) == (30.0, pytest.approx(5.0))
    assert (both.duration_s, both.work) == (2.0, 5.0)
    assert both.start_u_j is None

    both = summed([replace(one, start_u_j=3.0), replace(one, energy_u_j=4.0, start_u_j=4.0)])
    assert both.start_u_j == pytest.approx(5.0)


def test_what_boards_use_is_added_and_their_work_is_counted_once():
    first = FakeGpu()

    verdict = judged(first, Second(first))

    assert verdict.findings == ()
    assert [board.device.uuid for board in verdict.boards] == ["FAKE-0", "FAKE-1"]
    for window in verdict.windows:
        assert window.energy_j == pytest.approx((LOAD_W + IDLE_W) * window.duration_s, rel=2e-3)
        assert window.work == pytest.approx(window.duration_s / first.unit_s, rel=1e-6)
    assert np.median(verdict.trace.power_w) == pytest.approx(LOAD_W + IDLE_W)


def test_a_sum_is_valid_only_if_every_board_is():
    first = FakeGpu()
    second = Second(first)
    second.pids = lambda t_s: {FOREIGN_PID}

    verdict = judged(first, second)

    assert [finding.detail.partition(":")[0] for finding in verdict.findings] == ["FAKE-1"]


def test_what_was_seen_of_boards_is_added_or_the_worst_of_them():
    first = FakeGpu()
    second = Second(first)
    second.state = replace(second.state, temperature_c=61.0, power_limit_w=500.0)

    observed = judged(first, second).observed

    assert observed.power_limit_w == first.state.power_limit_w + 500.0
    assert observed.temperature_stop_c == 61.0


def test_the_power_of_all_boards_is_known_from_the_last_to_begin_to_the_first_to_end():
    first = PowerTrace(t_s=np.arange(5.0), power_w=np.full(5, 100.0))
    second = PowerTrace(t_s=np.arange(1.0, 4.0), power_w=np.array([10.0, 20.0, 30.0]))

    both = _trace([first, second])

    assert both.t_s.tolist() == [1.0, 2.0, 3.0]
    assert both.power_w.tolist() == [110.0, 120.0, 130.0]
    assert _trace([first, None]) is None


@pytest.mark.parametrize(("slow_s", "even"), [(0.8, True), (1.6, False)])
def test_a_short_warm_up_is_judged_by_its_late_half(slow_s, even):
    """First runs load kernels; what is uneven then may be measured quickly all the same."""
    gpu, point = FakeGpu(), OperatingPoint()
    procedure = Procedure(warmup_min_s=2.0, warmup_max_s=2.0)
    begun_s = []

    def run():
        begun_s.append(gpu.clock.now_s())
        gpu.set_level_w(LOAD_W)
        is_slow = begun_s[-1] < begun_s[0] + slow_s
        gpu.clock.sleep_s(3 * gpu.unit_s if is_slow else gpu.unit_s)
        return 1.0

    with Boards([gpu]).watched(procedure, point, point) as instruments:
        loop = WindowLoop(gpu.clock, run, instruments, instruments.check)
        assert warm_up(loop, instruments.lead, gpu.clock, procedure).even is even
