"""What a driver says of the knobs, before and after they are turned."""

from joulelab.core.point import OperatingPoint
from joulelab.devices.base import Device
from joulelab.errors import DeviceError, DeviceUnsupportedError
from joulelab.guard.protocol import Receipt

POWER_LIMIT_TOLERANCE_W = 0.5
"""Drivers round a power limit; two limits closer than this are one."""


def driver_point(device: Device) -> OperatingPoint | None:
    """Return what the driver says is set, or ``None`` if it does not tell."""
    try:
        return device.read_point()
    except DeviceUnsupportedError:
        return None


def prior_point(device: Device) -> OperatingPoint:
    """Return what is set, as far as the driver tells; ``None`` for a knob at its default."""
    told = driver_point(device)
    if told is not None:
        return told
    limit_w = device.read_state().power_limit_w
    default_w = device.capabilities().default_power_limit_w
    return OperatingPoint(power_limit_w=None if _agrees(limit_w, default_w) else limit_w)


def take_receipt(device: Device, point: OperatingPoint, prior: OperatingPoint) -> Receipt:
    """Read ``device`` back after ``point`` was put in force.

    Raises:
        DeviceError: If it holds something else.
    """
    uuid, held, state = device.identity().uuid, driver_point(device), device.read_state()
    wrong = [] if held is None else _wrong_locks(point, held)
    if not _agrees(point.power_limit_w, state.power_limit_w):
        wrong.append(f"power_limit_w is {state.power_limit_w}")
    if wrong:
        raise DeviceError(
            f"{uuid} was set to {point.label}, but on reading back {' and '.join(wrong)}; "
            "another program may be setting it."
        )
    return Receipt(
        uuid=uuid,
        requested=point,
        prior=prior,
        held=held,
        sm_clock_mhz=state.sm_clock_mhz,
        mem_clock_mhz=state.mem_clock_mhz,
        power_limit_w=state.power_limit_w,
    )


def amend(device: Device, target: OperatingPoint) -> None:
    """Set what a reset did not bring to ``target``.

    A reset leads to the driver's defaults, not to what was there before; and one backend's
    leaves a power limit alone that was not set through the same handle.
    """
    held, limit_w = driver_point(device), device.read_state().power_limit_w
    locks = target if held is not None else OperatingPoint()
    amends = OperatingPoint(
        sm_clock_mhz=locks.sm_clock_mhz,
        mem_clock_mhz=locks.mem_clock_mhz,
        power_limit_w=None if _agrees(target.power_limit_w, limit_w) else target.power_limit_w,
    )
    if not amends.is_default:
        device.apply(amends)


def verify_restored(device: Device, target: OperatingPoint) -> None:
    """Read ``device`` back after it was to be brought to ``target``.

    Raises:
        DeviceError: If it holds something else, as far as the driver tells.
    """
    held, limit_w = driver_point(device), device.read_state().power_limit_w
    locks_differ = held is not None and (
        (held.sm_clock_mhz, held.mem_clock_mhz) != (target.sm_clock_mhz, target.mem_clock_mhz)
    )
    if locks_differ or not _agrees(target.power_limit_w, limit_w):
        raise DeviceError(
            f"{device.identity().uuid} should be back at {target.label}, but holds "
            f"{'' if held is None else held.label + ' and '}a power limit of {limit_w} W."
        )


def _wrong_locks(point: OperatingPoint, held: OperatingPoint) -> list[str]:
    return [
        f"{name} is {found}"
        for name in ("sm_clock_mhz", "mem_clock_mhz")
        if (wanted := getattr(point, name)) is not None and (found := getattr(held, name)) != wanted
    ]


def _agrees(wanted_w: float | None, found_w: float | None) -> bool:
    """Whether two power limits are one, or one of them is not told."""
    if wanted_w is None or found_w is None:
        return True
    return abs(wanted_w - found_w) <= POWER_LIMIT_TOLERANCE_W
