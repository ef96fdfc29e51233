"""A process that turns the knobs of a device itself, and whether the kernel lets it."""

import pytest
from fake_gpu import DEFAULT_CLOCK_MHZ, FakeGpu

from joulelab.core.point import OperatingPoint
from joulelab.devices.base import may_administer
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


HOST = "         0          0 4294967295\n"
CONTAINER = "         0     100000      65536\n"


def status(effective):
    return f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective:016x}\n"


@pytest.mark.parametrize(
    ("effective", "uid_map", "expected"),
    [
        (0x1FFFFFFFFFF, HOST, True),  # root on the host
        (1 << 21, HOST, True),  # CAP_SYS_ADMIN alone
        (0, HOST, False),  # an ordinary user
        (0x00000000A80425FB, HOST, False),  # root in a default Docker container
        (0x1FFFFFFFFFF, CONTAINER, None),  # root of a user namespace
        (0, CONTAINER, False),
    ],
)
def test_only_the_system_administration_capability_of_the_host_obliges_the_driver(
    effective, uid_map, expected
):
    assert may_administer(status(effective), uid_map) is expected


def test_a_kernel_that_does_not_say_leaves_it_open():
    assert may_administer("Name:\tpython\n", HOST) is None
