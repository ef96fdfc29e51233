"""Measure at a point through the clock guard, lease after lease, or without turning a knob."""

import os
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint, Receipt
from joulelab.devices.base import Device
from joulelab.devices.choice import with_store
from joulelab.devices.control import prior_point, require_own_limit, take_receipt
from joulelab.errors import ConfigError, ForeignSettingError, GuardError
from joulelab.guard.client import GuardClient, Lease
from joulelab.guard.journal import Entry, Journal
from joulelab.guard.settings import GuardSettings, default_socket_path, user_socket_path


class GuardedControl:
    """A :class:`~joulelab.devices.control.Control` that outlives the leases it works with.

    The first point that is applied takes a lease. A lease that was lost (the guard died, or took it
    back) fails the measurement under it; the next point takes a new one. Others who ask for the
    device get the note.
    """

    def __init__(self, address: DeviceAddress, *, socket_path: Path | None, note: str) -> None:
        self._address = address
        self._note = note
        self._client = GuardClient(socket_path)
        self._lease: Lease | None = None

    def apply(self, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force, and the driver's default for every other knob.

        Raises:
            GuardError: If there is no lease to be had, or it is lost just now.
            JouleLabError: What the device says.
        """
        try:
            self.require_held()
        except GuardError:
            self.close()
        if self._lease is None:
            self._lease = self._client.lease(self._address, note=self._note)
        return self._lease.apply(point)

    def reset(self) -> None:
        """Return every knob to what it was; the guard does so by itself for a lost lease."""
        if self._lease is not None:
            self._lease.reset()

    def require_held(self) -> None:
        """Raise :class:`GuardError` if the point may no longer be in force."""
        if self._lease is not None:
            self._lease.require_held()

    def close(self) -> None:
        """Give the device back. Safe to call twice."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.close()


class ObserveOnly:
    """The :class:`~joulelab.devices.control.Control` that calls no setter, ever.

    It makes sure instead that nothing is set: not by the journal of any clock guard that this user
    has to believe, at ``guard_socket`` or in the usual places, and not by what the driver tells.
    """

    def __init__(
        self, device: Device, address: DeviceAddress, *, guard_socket: Path | None = None
    ) -> None:
        self._device = device
        self._address = address
        self._guard_socket = guard_socket

    def apply(self, point: OperatingPoint) -> Receipt:
        """Find that ``point`` is in force: the driver's defaults, or a power limit by name.

        Raises ConfigError if a clock is to be locked; ForeignSettingError if something else is in
        force.
        """
        if point.locks_clocks:
            raise ConfigError(
                f"observe-only measures at the driver's own clocks, but {point.label} was asked "
                "for; drop the clocks, or allow control."
            )
        self.require_held()
        prior = prior_point(self._device)
        require_own_limit(self._device, point, prior)
        return take_receipt(self._device, point, prior, set_by="nobody")

    def reset(self) -> None:
        """Do nothing: nothing was set."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def require_held(self) -> None:
        """Raise :class:`ForeignSettingError` if a clock guard has set something, or left it set."""
        entry = owed_on(self._address, self._guard_socket)
        if entry is not None:
            raise ForeignSettingError(
                f"{self._address.uuid} must be as the driver left it, but a clock guard's journal "
                f"says that pid {entry.pid} of uid {entry.uid} had it set to "
                f"{'another point' if entry.requested is None else entry.requested.label} at "
                f"{entry.time}, and not that it was restored; wait until it is, or have it "
                "restored with `joulelab guard --restore`."
            )


def owed_on(address: DeviceAddress, guard_socket: Path | None = None) -> Entry | None:
    """Return what a clock guard has set on a device, or left set; ``None`` if nothing is known."""
    address = with_store(address)
    sockets = [
        guard_socket,
        default_socket_path(address),
        user_socket_path(os.getuid()),
        user_socket_path(0),
    ]
    for socket_path in dict.fromkeys(path for path in sockets if path is not None):
        folder = GuardSettings(socket_path=socket_path).state_dir
        if _is_believed(folder) and (entry := Journal(folder).owed_of(address)) is not None:
            return entry
    return None


def _is_believed(folder: Path) -> bool:
    """Whether a journal is root's or this user's own; anybody could write another."""
    try:
        return folder.stat().st_uid in (0, os.getuid()) and os.access(folder, os.R_OK | os.X_OK)
    except OSError:
        return False
