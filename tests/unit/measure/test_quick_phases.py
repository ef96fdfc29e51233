"""Quick points against a closed form, and of programs of which one phase does not settle."""

from itertools import groupby
from math import ceil, sin

import pytest
from fake_gpu import FakeGpu, FakeLoad
from typing_extensions import override

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial

SEARCH = Procedure().in_search()


class PhasedLoad(FakeLoad):
    """Notes which phases ran; the time of a prefill swings by a third."""

    @override
    def run(self, phase: str) -> float:
        gpu = self._gpu
        gpu.ran.append(phase)
        gpu.unit_s = 0.03 * (1 + 0.3 * sin(9 * gpu.clock.now_s())) if phase == "prefill" else 0.03
        return super().run(phase)


class PhasedGpu(FakeGpu):
    """A GPU that hosts such loads."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    @override
    def host(self, workload):
        return PhasedLoad(self, workload)


def trial_of(workload, sm_clock_mhz=None):
    point = OperatingPoint(sm_clock_mhz=sm_clock_mhz)
    configuration = Configuration.of(workload, {}, point)
    return Trial(study="study", name="trial", configuration=configuration)


def phased(gpu, *clocks_mhz):
    """Measure a program of two phases at clocks; return paces by phase, and the phases as run."""
    found = []
    with Bench(gpu, procedure=SEARCH) as bench:
        for clock_mhz in clocks_mhz:
            gpu.ran.clear()
            records = [each.measurement for each in bench.measure(trial_of("llama", clock_mhz))]
            ran = [phase for phase, _ in groupby(gpu.ran)]
            found.append(({each.phase: each.pace for each in records}, ran))
    return found


def test_only_the_phase_that_did_not_settle_is_measured_again_from_rest():
    """The whole program was, for a minute and more, though the other phase was good."""
    ((paces, ran),) = phased(PhasedGpu(), 1410)

    assert paces == {"prefill": "reference", "decode": "quick"}
    assert list(paces) == ["prefill", "decode"]
    assert ran == ["prefill", "decode", "prefill"]


def test_why_a_phase_is_measured_again_is_logged(caplog):
    with caplog.at_level("INFO", logger="joulelab.bench"):
        phased(PhasedGpu(), 1410)

    (line,) = [each.message for each in caplog.records if "again" in each.message]
    assert line.startswith("trial, prefill: from rest again: power or pace was not even after ")


def test_a_phase_that_did_not_settle_is_not_tried_quickly_at_the_next_clock():
    _, (paces, ran) = phased(PhasedGpu(), 1410, 705)

    assert paces == {"prefill": "reference", "decode": "quick"}
    assert ran == ["decode", "prefill"]


@pytest.mark.parametrize(("tick_s", "window_s"), [(0.02, 0.2), (0.1, 0.2), (0.25, 0.5)])
def test_windows_of_a_search_match_the_closed_form_and_hold_two_ticks(tick_s, window_s):
    with Bench(FakeGpu(tick_s=tick_s), procedure=SEARCH) as bench:
        bench.measure(trial_of("gemm"))
        (record,) = bench.measure(trial_of("gemm", 1410))

    found = record.measurement
    assert found.valid
    assert found.pace == "quick"
    assert found.energy_per_unit_j == pytest.approx(9.0, rel=0.01)  # 300 W, 0.03 s a unit
    assert abs(found.energy_per_unit_j - 9.0) < 2 * found.energy_per_unit_u_j
    assert found.energy_per_unit_u_j < 0.01 * 9.0  # of which timing ticks to 5 ms is most
    for window in found.windows:
        assert window_s <= window.duration_s < window_s + 0.04


@pytest.mark.parametrize("unit_s", [0.22, 0.28, 0.45])
def test_a_long_unit_runs_no_more_often_than_a_point_needs(unit_s):
    """Windows of 0.3 s were two units of 0.28 s each, and two units followed the last one."""

    class Slow(PhasedLoad):
        @override
        def run(self, phase: str) -> float:
            self._gpu.ran.append(phase)
            self._gpu.unit_s = unit_s
            return FakeLoad.run(self, phase)

    gpu = PhasedGpu()
    gpu.host = lambda workload: Slow(gpu, workload)
    with Bench(gpu, procedure=Procedure(pace="quick", idle_s=0.0)) as bench:
        bench.measure(trial_of("gemm"))
        gpu.ran.clear()
        (record,) = bench.measure(trial_of("gemm", 1410))

    found = record.measurement
    assert [w.duration_s for w in found.windows] == pytest.approx([unit_s] * 3)
    # A warm-up of 0.3 s, and a unit on each side of the windows.
    assert len(gpu.ran) == ceil(0.3 / unit_s) + 1 + 3 + 1


def test_a_point_of_a_search_takes_less_than_one_and_a_half_seconds():
    gpu = FakeGpu()
    with Bench(gpu, procedure=SEARCH) as bench:
        bench.measure(trial_of("gemm"))
        start_s = gpu.clock.now_s()
        bench.measure(trial_of("gemm", 1410))

    assert gpu.clock.now_s() - start_s < 1.5


def test_a_search_keeps_the_precision_that_was_asked_for():
    assert Procedure(relative_ci=0.005).in_search().relative_ci == 0.005
    assert Procedure(quick_window_s=0.5).in_search() == Procedure(quick_window_s=0.5)
