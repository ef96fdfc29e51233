"""Who brings devices to an operating point, what drivers say of that, and what is put back."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from joulelab.core.point import OperatingPoint, Receipt, SetBy
from joulelab.core.settings import same_limit, wrong_settings
from joulelab.devices.base import Device
from joulelab.errors import DeviceError, ForeignSettingError, JouleLabError


class Control(Protocol):
    """Whoever may turn the knobs: the process itself, a guard's lease, or nobody."""

    def apply(self, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force, and the driver's default for every knob that is ``None``.

        Raises ForeignSettingError if something else is in force and may not be undone.
        """
        ...

    def reset(self) -> None:
        """Return every knob to what it was before."""
        ...

    def require_held(self) -> None:
        """Raise :class:`JouleLabError` if the point may no longer be in force."""
        ...


class OwnControl:
    """A process that turns the knobs of a device itself, which nobody restores for it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._is_set = False

    def apply(self, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force; what is at its default already is not touched.

        Raises:
            ForeignSettingError: If something else was in force before.
            JouleLabError: What the device says.
        """
        prior = prior_point(self._device)
        require_own_limit(self._device, point, prior)
        if not point.is_default:
            self._is_set = True
            self._device.apply(point)
        return take_receipt(self._device, point, prior, set_by="process")

    def reset(self) -> None:
        """Return every knob to the driver's default, if any was turned."""
        if self._is_set:
            self._device.reset()
            self._is_set = False

    def require_held(self) -> None:
        """Do nothing: what is in force shows in the looks at the device."""


@contextmanager
def applied(control: Control, point: OperatingPoint) -> Generator[Receipt]:
    """Hold ``point`` for the length of a ``with`` block, then return to what was before."""
    try:
        yield control.apply(point)
    finally:
        control.reset()


def prior_point(device: Device) -> OperatingPoint:
    """Return what is set, as far as the driver tells; ``None`` for a knob at its default."""
    state, default_w = device.read_state(), device.capabilities().default_power_limit_w
    held = state.held or OperatingPoint(power_limit_w=state.power_limit_w)
    is_default = default_w is not None and same_limit(held.power_limit_w, default_w)
    return replace(held, power_limit_w=None) if is_default else held


def require_own_limit(device: Device, point: OperatingPoint, prior: OperatingPoint) -> None:
    """Refuse to measure under a power limit that somebody else chose and ``point`` does not name.

    It may be what the site's supply or cooling bears, so nobody raises it unasked. Raises
    ForeignSettingError, which says how to have it.
    """
    if prior.power_limit_w is None or point.power_limit_w is not None:
        return
    default_w = device.capabilities().default_power_limit_w
    raise ForeignSettingError(
        f"{device.identity().uuid} must be at its default power limit of {default_w:g} W, but is "
        f"at {prior.power_limit_w:g} W; have it reset (`nvidia-smi -pl {default_w:g}`), or measure "
        f"under that limit by name (--procedure.power-limit-w {prior.power_limit_w:g})."
    )


def take_receipt(
    device: Device,
    point: OperatingPoint,
    prior: OperatingPoint,
    *,
    set_by: SetBy,
    unlocked: bool = False,
) -> Receipt:
    """Read ``device`` back after ``set_by`` put ``point`` in force, in place of what was ``prior``.

    If ``unlocked``, all locks that were not asked for were undone just before. Raises
    ForeignSettingError if it holds something else, as far as the driver tells.
    """
    uuid, state = device.identity().uuid, device.read_state()
    wrong = wrong_settings(state, point, device.capabilities())
    if wrong:
        raise ForeignSettingError(
            f"{uuid} should be at {point.label}, but {' and '.join(wrong)}; another program may "
            "be setting it, or have left it so."
        )
    return Receipt(
        uuid=uuid,
        requested=point,
        prior=prior,
        held=state.held,
        sm_clock_mhz=state.sm_clock_mhz,
        mem_clock_mhz=state.mem_clock_mhz,
        power_limit_w=state.power_limit_w,
        set_by=set_by,
        locks_known=unlocked or state.held is not None,
    )


def amend(device: Device, target: OperatingPoint) -> None:
    """Set what a reset did not bring to ``target``.

    A reset leads to the driver's defaults, not to what was there before; and one backend's
    leaves a power limit alone that was not set through the same handle.
    """
    state = device.read_state()
    locks = target if state.held is not None else OperatingPoint()
    as_is = same_limit(target.power_limit_w, state.power_limit_w)
    amends = OperatingPoint(
        sm_clock_mhz=locks.sm_clock_mhz,
        mem_clock_mhz=locks.mem_clock_mhz,
        power_limit_w=None if as_is else target.power_limit_w,
    )
    if not amends.is_default:
        device.apply(amends)


def verify_restored(device: Device, target: OperatingPoint) -> None:
    """Read ``device`` back after it was to be brought to ``target``.

    Raises DeviceError if it holds something else, as far as the driver tells.
    """
    state = device.read_state()
    held, limit_w = state.held, state.power_limit_w
    locks_differ = held is not None and (
        (held.sm_clock_mhz, held.mem_clock_mhz) != (target.sm_clock_mhz, target.mem_clock_mhz)
    )
    if locks_differ or not same_limit(target.power_limit_w, limit_w):
        raise DeviceError(
            f"{device.identity().uuid} should be back at {target.label}, but holds "
            f"{'' if held is None else held.label + ' and '}a power limit of {limit_w} W."
        )


class ClosableControl(Control, Protocol):
    """A control that holds something between points, such as a lease."""

    def close(self) -> None:
        """Give the device back. Safe to call twice."""
        ...


class JointControl:
    """A :class:`~joulelab.devices.control.Control` of several devices.

    If one cannot be had, or refuses the point, all are given back as they were.
    """

    def __init__(self, controls: Sequence[ClosableControl]) -> None:
        self._controls = tuple(controls)

    def apply(self, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force on every device; return what the first one says of it.

        Raises:
            JouleLabError: What one of them says; then nothing is in force on any.
        """
        try:
            receipts = [control.apply(point) for control in self._controls]
        except BaseException:
            self.close()
            raise
        return receipts[0]

    def reset(self) -> None:
        """Return every knob of each device to what it was before."""
        _each([control.reset for control in self._controls])

    def require_held(self) -> None:
        """Raise :class:`JouleLabError` if the point may no longer be in force on one of them."""
        for control in self._controls:
            control.require_held()

    def close(self) -> None:
        """Give every device back. Safe to call twice."""
        _each([control.close for control in self._controls])


def _each(calls: Sequence[Callable[[], None]]) -> None:
    """Make all calls, though some fail; raise the first error then."""
    errors = []
    for call in calls:
        try:
            call()
        except JouleLabError as error:
            errors.append(error)
    if errors:
        raise errors[0]
