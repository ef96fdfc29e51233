"""Turn a device's knobs through the clock guard of its node, lease after lease."""

from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.receipt import Receipt
from joulelab.errors import GuardError
from joulelab.guard import GuardClient, Lease


class GuardedControl:
    """A :class:`~joulelab.devices.control.Control` that outlives the leases it works with.

    The first point that is applied takes a lease. A lease that was lost (the guard died, or took
    it back) fails the measurement under it; the next point takes a new one.

    Args:
        address: The device.
        socket_path: Where the guard listens; ``None`` for the node's own.
        note: What others who ask for the device are told.
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
        return self._held_lease().apply(point)

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

    def _held_lease(self) -> Lease:
        try:
            self.require_held()
        except GuardError:
            self.close()
        if self._lease is None:
            self._lease = self._client.lease(self._address, note=self._note)
        return self._lease
