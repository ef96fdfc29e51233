from fake_gpu import FakeGpu

from joulelab.core.counter import EnergyCounter
from joulelab.core.procedure import Procedure
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.window_loop import WindowLoop


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
