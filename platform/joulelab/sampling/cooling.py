"""Wait until a board is cool enough to begin."""

from joulelab.devices.base import Device
from joulelab.errors import DeviceHotError

_LOOK_S = 0.5


def cool_down(device: Device, *, below_c: float, limit_s: float) -> float:
    """Wait until the board is below ``below_c``; return the seconds that took.

    Raises:
        DeviceHotError: If it is not after ``limit_s``, or its temperature cannot be read.
    """
    clock = device.clock
    start_s = clock.now_s()
    while (temperature_c := _temperature_c(device)) >= below_c:
        waited_s = clock.now_s() - start_s
        if waited_s >= limit_s:
            raise DeviceHotError(
                f"The board was to be below {below_c:g} C and is at {temperature_c:g} C after "
                f"{waited_s:.0f} s; allow more time or a higher temperature, or cool it better."
            )
        clock.sleep_s(min(_LOOK_S, limit_s - waited_s))
    return clock.now_s() - start_s


def _temperature_c(device: Device) -> float:
    temperature_c = device.read_brief_state().temperature_c
    if temperature_c is None:
        raise DeviceHotError(
            "The temperature of the board cannot be read, so there is no telling when it has "
            "cooled down; leave start_below_c out."
        )
    return temperature_c
