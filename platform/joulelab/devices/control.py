"""Who brings a device to an operating point, and sees to it that nothing else is in force."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from joulelab.core.point import OperatingPoint
from joulelab.core.receipt import Receipt
from joulelab.devices.base import Device
from joulelab.devices.readback import prior_point, require_own_limit, take_receipt


class Control(Protocol):
    """Whoever may turn the knobs: the process itself, a guard's lease, or nobody."""

    def apply(self, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force, and the driver's default for every knob that is ``None``.

        Raises:
            ForeignSettingError: If something else is in force and may not be undone.
        """
        ...

    def reset(self) -> None:
        """Return every knob to what it was before."""
        ...

    def require_held(self) -> None:
        """Raise :class:`JouleLabError` if the point may no longer be in force."""
        ...


class OwnControl:
    """A process that turns the knobs of a device itself, and has nobody who restores them for it.

    Args:
        device: The device.
    """

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
