"""One device in the guard's keeping, from the first write to the verified restore."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint, Receipt
from joulelab.devices.base import Device, check_point
from joulelab.devices.control import (
    amend,
    prior_point,
    require_own_limit,
    take_receipt,
    verify_restored,
)
from joulelab.errors import (
    ConfigError,
    DevicePermissionError,
    DeviceUnsupportedError,
    ForeignSettingError,
    JouleLabError,
)
from joulelab.guard.journal import Entry, Journal
from joulelab.guard.protocol import PendingRestore

OpenDevice = Callable[[DeviceAddress], Device]

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0

_log = logging.getLogger(__name__)


class KeptDevice:
    """Sets a device's knobs and gives back what was there before.

    The journal is written before the device is. A restore that fails stays due: it is tried again,
    ever more slowly, for as long as the guard lives, and by the next guard after that. ``owed`` is
    the journal's last ``set`` line, if a guard before this one left it. ``borrower`` is the process
    and the user for whom it was set last.
    """

    def __init__(
        self,
        address: DeviceAddress,
        *,
        journal: Journal,
        open_device: OpenDevice,
        owed: Entry | None = None,
    ) -> None:
        self.address = address
        self.due_s: float | None = None
        self._journal = journal
        self._open_device = open_device
        self._device: Device | None = None
        self._prior: OperatingPoint | None = None
        self._turned = OperatingPoint()
        self.borrower: tuple[int | None, int | None] = (None, None)
        if owed is not None:
            self.borrower = owed.pid, owed.uid
            self._prior = owed.prior
            self._turned = owed.requested or OperatingPoint()
        self._attempts = 0
        self._error = ""

    @property
    def is_set(self) -> bool:
        """Whether anything may be in force that has to be given back."""
        return self._prior is not None

    @property
    def point(self) -> OperatingPoint:
        """The knobs that were turned and not turned back."""
        return self._turned

    @property
    def pending(self) -> PendingRestore:
        """How the tries to restore it have gone."""
        return PendingRestore(address=self.address, attempts=self._attempts, error=self._error)

    def open(self) -> Device:
        """Open the device if it is not open yet.

        Raises:
            JouleLabError: Whatever its backend says.
        """
        if self._device is None:
            self._device = self._open_device(self.address)
        return self._device

    def close(self) -> None:
        """Let go of the device, leaving its knobs as they are."""
        device, self._device = self._device, None
        if device is not None:
            with suppress(JouleLabError):
                device.close()

    def apply(self, point: OperatingPoint, *, pid: int, uid: int) -> Receipt:
        """Write down, undo what others set, set, read back.

        Afterwards ``point`` is in force, and the driver's default for every knob that it leaves
        open.

        Raises:
            ForeignSettingError: If a power limit is in force that is not the default and was
                not asked for, or if the device holds something else than it was given.
            JouleLabError: Whatever the device says.
            OSError: If the journal cannot be written; then nothing was set.
        """
        device = self.open()
        check_point(point, device.capabilities())
        first = self._prior is None
        prior = self._prior or prior_point(device)
        require_own_limit(device, point, prior)
        if first and point.is_default and prior.is_default:
            return self._unlock(device)
        given = {f.name: v for f in fields(point) if (v := getattr(point, f.name)) is not None}
        turned = replace(self._turned, **given)
        self._journal.write(
            "set", self.address, detail="lent", prior=prior, requested=turned, pid=pid, uid=uid
        )
        self._prior, self._turned, self.borrower = prior, turned, (pid, uid)
        try:
            device.reset()
            device.apply(point)
            receipt = take_receipt(device, point, prior, set_by="guard", unlocked=True)
        except JouleLabError as error:
            if first and self._left_untouched(device, prior, error):
                self._settle(f"nothing was set: {error}", prior)
            if point.is_default and isinstance(error, DevicePermissionError):
                raise ForeignSettingError(
                    f"{self.address.uuid} is held at {prior.label}, which was not asked for, and "
                    f"that cannot be undone: {error}"
                ) from error
            raise
        self.due_s = None
        return receipt

    def _unlock(self, device: Device) -> Receipt:
        """Undo locks that the driver may not tell of; there is nothing to give back later.

        Who may not undo them measures at whatever is in force, and the receipt says so.
        """
        default, unlocked = OperatingPoint(), True
        if device.read_state().held is None:
            try:
                device.reset()
            except (DevicePermissionError, DeviceUnsupportedError):
                unlocked = False
        return take_receipt(device, default, default, set_by="guard", unlocked=unlocked)

    def restore(self, cause: str) -> bool:
        """Give back what was in force before, and verify it.

        Returns:
            Whether that worked; if not, it is due again at :attr:`due_s`.
        """
        if self._prior is None:
            return True
        try:
            notes = self._put_back(self._prior)
            self._settle(cause + notes, self._prior)
        except Exception as error:  # whatever a driver throws, the debt stays
            self._fail(cause, error)
            return False
        return True

    def _left_untouched(self, device: Device, prior: OperatingPoint, error: JouleLabError) -> bool:
        """Whether a refused first point changed nothing, so that nothing is owed."""
        if device.read_state().held is not None:
            return prior_point(device) == prior
        if isinstance(error, DevicePermissionError):
            try:
                self._put_back(prior)
            except DevicePermissionError:
                return True  # who may not reset a knob cannot have turned it
            return False
        return isinstance(error, ConfigError)

    def _put_back(self, prior: OperatingPoint) -> str:
        """Restore and verify; return what there is to say of it."""
        device = self.open()
        target = OperatingPoint(
            sm_clock_mhz=prior.sm_clock_mhz,
            mem_clock_mhz=prior.mem_clock_mhz,
            power_limit_w=self._limit_to_restore_w(device, prior),
        )
        device.reset()
        remark = ""
        try:
            amend(device, target)
        except ConfigError as error:
            target, remark = OperatingPoint(), f"; left at the default, since {error}"
        verify_restored(device, target)
        return remark

    def _limit_to_restore_w(self, device: Device, prior: OperatingPoint) -> float | None:
        """What the power limit should be; one that the guard did not turn is not its business."""
        if self._turned.power_limit_w is None:
            return device.read_state().power_limit_w
        if prior.power_limit_w is not None:
            return prior.power_limit_w
        return device.capabilities().default_power_limit_w

    def _settle(self, detail: str, prior: OperatingPoint) -> None:
        self._journal.write("restored", self.address, detail=detail, prior=prior)
        self._prior, self._turned, self.due_s = None, OperatingPoint(), None
        self._attempts, self._error = 0, ""

    def _fail(self, cause: str, error: Exception) -> None:
        self.close()  # a handle from before a driver reload never works again
        self._attempts += 1
        pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(self._attempts - 1, 10), _LONGEST_PAUSE_S)
        self.due_s = time.monotonic() + pause_s
        if str(error) != self._error:
            _log.error("Cannot restore %s (%s): %s", self.address.uuid, cause, error)
        self._error = str(error)
