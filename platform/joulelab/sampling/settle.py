"""Wait until a new operating point is in force."""

from joulelab.core.device import DeviceState
from joulelab.core.point import OperatingPoint
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ, POWER_LIMIT_TOLERANCE_W
from joulelab.devices.base import Device

READ_BACK_PERIOD_S = 0.05
READ_BACK_PATIENCE_S = 2.0
"""An idle device may park below a locked clock, so the wait for its read-back is limited; what
the clock is under load is for the validity contract to judge."""


def settle(device: Device, point: OperatingPoint, *, wait_s: float) -> None:
    """Wait until ``point`` reads back twice in a row, and then ``wait_s`` longer."""
    clock = device.clock
    give_up_s = clock.now_s() + READ_BACK_PATIENCE_S
    in_a_row = 0
    while in_a_row < 2 and clock.now_s() < give_up_s:
        in_a_row = in_a_row + 1 if _reads_back(device.read_brief_state(), point) else 0
        clock.sleep_s(READ_BACK_PERIOD_S)
    clock.sleep_s(wait_s)


def _reads_back(state: DeviceState, point: OperatingPoint) -> bool:
    pairs = (
        (state.sm_clock_mhz, point.sm_clock_mhz, CLOCK_TOLERANCE_MHZ),
        (state.mem_clock_mhz, point.mem_clock_mhz, CLOCK_TOLERANCE_MHZ),
        (state.power_limit_w, point.power_limit_w, POWER_LIMIT_TOLERANCE_W),
    )
    return all(
        wanted is None or seen is None or abs(seen - wanted) <= tolerance
        for seen, wanted, tolerance in pairs
    )
