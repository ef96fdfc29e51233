from fake_gpu import FakeGpu

from joulelab.core.counter import EnergyCounter
from joulelab.core.procedure import Procedure
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.window_loop import WindowLoop


def test_an_edge_is_bracketed_once_its_margin_has_passed_and_not_before():
    gpu = FakeGpu(has_counter=False)
    with Instruments(gpu, Procedure()) as instruments:
        gpu.clock.sleep_s(1.0)
        edge_s = gpu.clock.now_s()
        while not instruments.bracketed(edge_s):
            gpu.clock.sleep_s(0.001)

        assert instruments.margin_s <= gpu.clock.now_s() - edge_s < 1.0


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
