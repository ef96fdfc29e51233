import numpy as np
import pytest
from fake_gpu import FakeGpu

from joulelab.core.counter import EnergyCounter
from joulelab.core.procedure import Procedure
from joulelab.errors import DeviceLostError, MeasurementError
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.meter import Meter
from joulelab.sampling.tick_tracker import TickTracker
from joulelab.sampling.window_loop import WindowLoop


def run_for(gpu, unit_s):
    gpu.set_level_w(gpu.load_w)
    gpu.clock.sleep_s(unit_s)
    return 1.0


def metered(gpu, num_windows=1, window_s=2.0, unit_s=0.03, tracker=None):
    """Windows of a load that does one unit of work per unit, and the meter that watched."""
    meter = Meter(gpu, tracker=tracker)
    meter.start()

    loop = WindowLoop(gpu.clock, lambda: run_for(gpu, unit_s), meter, meter.raise_if_failed)
    begun_s = gpu.clock.now_s()
    loop.run_until(lambda: gpu.clock.now_s() > begun_s + 2)
    intervals = loop.windows(num_windows, window_s)
    meter.stop()
    return intervals, meter


@pytest.mark.parametrize("unit_s", [0.001, 0.03, 0.7, 5.0])
@pytest.mark.parametrize("tick_s", [0.02, 0.1, 0.25, None])
def test_energy_of_windows_matches_the_closed_form(unit_s, tick_s):
    intervals, meter = metered(FakeGpu(tick_s=tick_s), 2, unit_s=unit_s)

    counter = EnergyCounter(meter.polls())
    for interval in intervals:
        window = counter.window(interval.start_s, interval.stop_s)
        assert window.energy_j == pytest.approx(300 * window.duration_s, rel=2e-3)
        assert window.energy_u_j < 0.006 * window.energy_j


def test_between_the_edges_a_tick_is_timed_only_now_and_then():
    gpu = FakeGpu()

    (interval,), meter = metered(gpu, 1, window_s=20.0)

    at_s = meter.polls().before_s
    middle = (at_s > interval.start_s + 1) & (at_s < interval.stop_s - 1)
    assert 10 <= middle.sum() <= 24
    assert np.diff(at_s[middle]).max() < 4.5


def test_a_window_costs_few_reads():
    """Some two hundred reads of 3 ms would be 0.6 s of calls in a window of 2 s."""
    _, meter = metered(FakeGpu(), 1, window_s=2.0)
    _, longer = metered(FakeGpu(), 5, window_s=2.0)

    assert (longer.num_polls - meter.num_polls) / 4 < 8


def test_every_edge_has_sharp_ticks_on_both_sides():
    intervals, meter = metered(FakeGpu(), 3)

    ticks = EnergyCounter(meter.polls()).ticks
    sharp_s = ticks.time_s[ticks.latest_s - ticks.earliest_s < 0.016]
    for edge_s in [intervals[0].start_s, *(interval.stop_s for interval in intervals)]:
        assert ((sharp_s > edge_s - 0.12) & (sharp_s <= edge_s)).any()
        assert ((sharp_s < edge_s + 0.12) & (sharp_s >= edge_s)).any()


def test_a_meter_that_inherits_what_another_learnt_need_not_search():
    gpu, tracker = FakeGpu(), TickTracker()
    metered(gpu, tracker=tracker)
    gpu.clock.sleep_s(8.0)
    meter = Meter(gpu, tracker=tracker)

    meter.start()
    gpu.clock.sleep_s(1.0)
    meter.stop()

    assert meter.num_polls <= 4


@pytest.mark.parametrize("phase_s", np.linspace(0.001, 0.099, 8))
def test_the_uncertainty_is_honest_wherever_the_ticks_fall(phase_s):
    (interval,), meter = metered(FakeGpu(phase_s=phase_s), window_s=1.0)

    window = EnergyCounter(meter.polls()).window(interval.start_s, interval.stop_s)

    assert abs(window.energy_j - 300 * window.duration_s) < 2.5 * window.energy_u_j
    assert window.energy_u_j < 0.005 * window.energy_j


def test_the_load_runs_on_until_the_last_edge_is_bracketed():
    gpu = FakeGpu()

    (interval,), _ = metered(gpu)

    assert gpu.clock.now_s() > interval.stop_s + 0.02


def test_windows_adjoin_and_hold_whole_units():
    intervals, _ = metered(FakeGpu(), 3, window_s=1.0, unit_s=0.3)

    assert [interval.work for interval in intervals] == [4, 4, 4]
    assert [interval.stop_s - interval.start_s for interval in intervals] == pytest.approx(
        [1.2, 1.2, 1.2]
    )
    assert intervals[0].stop_s == intervals[1].start_s


@pytest.mark.parametrize("phase_s", np.linspace(0.001, 0.099, 8))
def test_windows_follow_a_warm_up_whose_edge_was_expected_within_a_tick(phase_s):
    gpu = FakeGpu(phase_s=phase_s)
    with Instruments(gpu, Procedure()) as instruments:
        loop = WindowLoop(gpu.clock, lambda: run_for(gpu, 0.03), instruments, instruments.check)
        begun_s = gpu.clock.now_s()
        loop.run_until(lambda: gpu.clock.now_s() > begun_s + 0.5, edge_s=begun_s + 0.5)
        steady_s = gpu.clock.now_s()
        (interval,) = loop.windows(1, 0.2, watched_s=begun_s)
        window = instruments.readings().window(interval)

    assert 0 < interval.start_s - steady_s < 0.1 + 2 * 0.03
    assert abs(window.energy_j - 300 * window.duration_s) < 2.5 * window.energy_u_j
    assert window.energy_u_j < 0.02 * window.energy_j


def test_a_counter_that_stands_still_does_not_stop_the_loop():
    gpu = FakeGpu()
    gpu.counter = lambda t_s, energy_j: min(energy_j, gpu.true_energy_j(1001))

    (interval,), meter = metered(gpu)

    (finding,) = EnergyCounter(meter.polls()).findings(interval.start_s, interval.stop_s)
    assert finding.reason == "counter_frozen"


def test_a_lost_device_ends_the_loop():
    gpu = FakeGpu()
    gpu.lost_from_s = 1003.0

    with pytest.raises(DeviceLostError):
        metered(gpu)


def test_a_counter_that_cannot_be_read_ends_the_loop_with_its_cause():
    gpu = FakeGpu()

    def broken(t_s, energy_j):
        if t_s > 1003:
            raise ValueError("no such field")
        return energy_j

    gpu.counter = broken

    with pytest.raises(MeasurementError, match="no such field"):
        metered(gpu)


def test_without_a_counter_the_load_runs_on_for_the_margin_after_the_last_edge():
    gpu = FakeGpu(has_counter=False)

    def run():
        gpu.clock.sleep_s(0.01)
        return 1.0

    with Instruments(gpu, Procedure()) as instruments:
        gpu.clock.sleep_s(1.0)
        loop = WindowLoop(gpu.clock, run, instruments, instruments.check)
        (interval,) = loop.windows(1, 0.5)

        after_s = gpu.clock.now_s() - interval.stop_s

    assert instruments.margin_s <= after_s < instruments.margin_s + 0.1


def test_the_load_runs_on_until_the_counter_ticks_after_the_last_edge():
    gpu = FakeGpu(tick_s=1.0)

    def run():
        gpu.set_level_w(gpu.load_w)
        gpu.clock.sleep_s(0.03)
        return 1.0

    with Instruments(gpu, Procedure()) as instruments:
        loop = WindowLoop(gpu.clock, run, instruments, instruments.check)
        begun_s = gpu.clock.now_s()
        loop.run_until(lambda: gpu.clock.now_s() > begun_s + 3)
        (interval,) = loop.windows(1, 2.5)
        ended_s = gpu.clock.now_s()
        polls = instruments.meter.polls()

    ticks_s = EnergyCounter(polls).ticks.time_s
    assert ((ticks_s > interval.stop_s) & (ticks_s <= ended_s)).any()
