import pytest
from fake_gpu import FakeGpu

from joulelab.errors import DeviceLostError
from joulelab.sampling.meter import Meter, find_ticks
from joulelab.sampling.tick_tracker import TickTracker


def busy_gpu(**knobs):
    gpu = FakeGpu(**knobs)
    gpu.set_level_w(gpu.load_w)
    return gpu


def test_ticks_are_foreseen_once_they_are_found():
    gpu, tracker = busy_gpu(), TickTracker()

    find_ticks(gpu, tracker)

    assert tracker.is_settled
    assert tracker.period_s == pytest.approx(0.1, abs=0.005)


def test_the_counter_is_read_no_more_once_its_ticks_are_found():
    gpu = busy_gpu()
    find_ticks(gpu, TickTracker())
    num_reads = gpu.num_counter_reads

    gpu.clock.sleep_s(10.0)

    assert gpu.num_counter_reads == num_reads


def test_ticks_that_are_known_are_not_looked_for_again():
    gpu, tracker = busy_gpu(), TickTracker()
    find_ticks(gpu, tracker)
    begun_s = gpu.clock.now_s()

    assert find_ticks(gpu, tracker) == 0.0
    assert gpu.clock.now_s() == begun_s


def test_a_measurement_after_it_starts_with_few_reads():
    """The first trial of a process once paid for the search: 2.5 % of a core, later ones 1.6 %."""
    reads = []
    for look_first in (False, True):
        gpu, tracker = busy_gpu(), TickTracker()
        if look_first:
            find_ticks(gpu, tracker)
        meter = Meter(gpu, tracker=tracker)
        meter.start()
        gpu.clock.sleep_s(2.0)
        meter.stop()
        reads.append(meter.num_polls)

    assert reads[1] < reads[0] / 2


def test_a_counter_that_stands_still_is_left_to_the_measurement():
    gpu, tracker = FakeGpu(), TickTracker()
    gpu.set_level_w(0.0)
    begun_s = gpu.clock.now_s()

    find_ticks(gpu, tracker)

    assert not tracker.is_settled
    assert gpu.clock.now_s() - begun_s == pytest.approx(4.0, abs=0.1)


def test_a_device_that_goes_meanwhile_is_reported():
    gpu = busy_gpu()
    gpu.lost_from_s = gpu.clock.now_s() + 0.2

    with pytest.raises(DeviceLostError):
        find_ticks(gpu, TickTracker())
