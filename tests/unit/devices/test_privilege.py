"""What the kernel says of a process decides, not a try."""

import pytest

from joulelab.devices.knobs import may_administer

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
