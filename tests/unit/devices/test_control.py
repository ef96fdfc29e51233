"""A process that turns the knobs of a device itself."""

import pytest
from fake_gpu import DEFAULT_CLOCK_MHZ, FakeGpu

from joulelab.core.point import OperatingPoint
from joulelab.devices.control import OwnControl, applied
from joulelab.errors import DeviceError, DeviceLostError

LOCKED = OperatingPoint(sm_clock_mhz=1410)


def test_a_point_is_taken_back_though_what_was_done_under_it_failed():
    gpu = FakeGpu()
    gpu.lost_from_s = gpu.clock.now_s() + 1.0

    def measure():
        with applied(OwnControl(gpu), LOCKED):
            gpu.clock.sleep_s(2.0)
            gpu.read_power_w()

    with pytest.raises(DeviceLostError):
        measure()

    assert gpu.num_resets == 1


def test_a_point_that_failed_half_way_is_taken_back():
    class Failing(FakeGpu):
        def apply(self, point):
            super().apply(point)
            raise DeviceError("The limit was refused once the clock was locked.")

    gpu = Failing()

    with pytest.raises(DeviceError, match="refused"), applied(OwnControl(gpu), LOCKED):
        pass

    assert gpu.state.sm_clock_mhz == DEFAULT_CLOCK_MHZ


def test_what_was_given_back_is_nobody_elses_to_reset():
    gpu = FakeGpu()
    control = OwnControl(gpu)
    control.apply(LOCKED)

    control.reset()
    control.reset()

    assert gpu.num_resets == 1
