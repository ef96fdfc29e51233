"""Hold an operating point on several devices: on all of them, or on none."""

from collections.abc import Callable, Sequence
from typing import Protocol

from joulelab.core.point import OperatingPoint
from joulelab.core.receipt import Receipt
from joulelab.devices.control import Control
from joulelab.errors import JouleLabError


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
