"""Who has which device on loan, until when, and what is still owed to it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint, Receipt
from joulelab.errors import DeviceError, GuardError, JouleLabError
from joulelab.guard import audit
from joulelab.guard.connection import Connection
from joulelab.guard.journal import Journal
from joulelab.guard.kept_device import KeptDevice, OpenDevice
from joulelab.guard.protocol import HeldLease, PendingRestore

MOST_DEVICES = 256
"""More than any node has; simulated ones can be had by the thousand."""

_log = logging.getLogger(__name__)

Key = tuple[str, str | None]
"""UUID and store: one device, whichever backend talks to it."""


@dataclass(slots=True, kw_only=True)
class Grant:
    """A lease as the guard keeps it."""

    kept: KeptDevice
    note: str  # what the holder said it is for
    ttl_s: float
    deadline_s: float  # when it ends, on the monotonic clock

    def renew(self) -> None:
        """Let it last for another :attr:`ttl_s` from now."""
        self.deadline_s = time.monotonic() + self.ttl_s


class Lending:
    """The leases in force and the devices in keeping; knows nothing of sockets."""

    def __init__(self, journal: Journal, open_device: OpenDevice) -> None:
        self._journal = journal
        self._open_device = open_device
        self._grants: dict[Connection, Grant] = {}
        self._kept: dict[Key, KeptDevice] = {}

    def recover(self, beat: Callable[[], None] = lambda: None) -> None:
        """Restore what a guard before this one left set, and ``beat`` before each device."""
        self._journal.mend()
        for entry in self._journal.owed():
            beat()
            kept = KeptDevice(
                entry.address,
                journal=self._journal,
                open_device=self._open_device,
                owed=entry,
            )
            _log.warning("Found %s still set for pid %s.", entry.address.uuid, entry.pid)
            self._part_with(kept, "guard restarted")

    def lend(
        self, connection: Connection, address: DeviceAddress, *, note: str, ttl_s: float
    ) -> None:
        """Lend the device at ``address`` to ``connection``.

        Raises:
            GuardError: If it is on loan (names the holder) or could not be restored yet.
            JouleLabError: Whatever its backend says on opening it.
        """
        if connection in self._grants:
            raise GuardError("This connection holds a lease already; a connection is one lease.")
        if len(self._grants) + len(self._kept) >= MOST_DEVICES:
            raise GuardError(
                f"A clock guard lends {MOST_DEVICES} devices at most, and all are out."
            )
        self._require_free(address)
        kept = KeptDevice(address, journal=self._journal, open_device=self._open_device)
        kept.open()
        grant = Grant(kept=kept, note=note, ttl_s=ttl_s, deadline_s=inf)
        grant.renew()
        self._grants[connection] = grant
        audit.note("leased", address, connection.peer.pid, connection.peer.uid, note)

    def apply(self, connection: Connection, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force on what ``connection`` has on loan, and renew the lease.

        Raises:
            GuardError: If it has nothing on loan.
            JouleLabError: Whatever the device says.
        """
        grant, peer = self._granted(connection), connection.peer
        try:
            receipt = grant.kept.apply(point, pid=peer.pid, uid=peer.uid)
        except JouleLabError as error:
            failure = f"{point.label}: {error}"
            audit.note("failed", grant.kept.address, peer.pid, peer.uid, failure)
            raise
        audit.note("set", grant.kept.address, peer.pid, peer.uid, point.label)
        grant.renew()
        self._kept.pop(_key(grant.kept.address), None)
        return receipt

    def reset(self, connection: Connection) -> None:
        """Restore what ``connection`` has on loan, and renew the lease.

        Raises GuardError if it has nothing on loan; DeviceError if the device could not be restored
        yet.
        """
        grant = self._granted(connection)
        grant.renew()
        if not self._give_back(grant.kept, "reset asked"):
            raise DeviceError(
                f"{grant.kept.address.uuid} is not back at its former settings yet; the clock "
                f"guard keeps trying: {grant.kept.pending.error}"
            )

    def renew(self, connection: Connection) -> None:
        """Let the lease of ``connection`` last for another time to live.

        Raises GuardError if it has nothing on loan.
        """
        self._granted(connection).renew()

    def lent_to(self, connection: Connection) -> DeviceAddress:
        """Return what ``connection`` has on loan; GuardError if that is nothing."""
        return self._granted(connection).kept.address

    def holds(self, connection: Connection) -> bool:
        """Whether ``connection`` has anything on loan."""
        return connection in self._grants

    def take_back(self, connection: Connection, cause: str) -> None:
        """End the lease of ``connection``, if it has one, and restore the device."""
        grant = self._grants.pop(connection, None)
        if grant is not None:
            self._part_with(grant.kept, cause)
            peer = connection.peer
            audit.note("ended", grant.kept.address, peer.pid, peer.uid, cause)

    def expired(self) -> tuple[Connection, ...]:
        """Return whose lease has run out."""
        now_s = time.monotonic()
        return tuple(c for c, grant in self._grants.items() if grant.deadline_s <= now_s)

    def retry(self) -> None:
        """Try again to restore what is due."""
        now_s = time.monotonic()
        for kept in tuple(self._kept.values()):
            if kept.due_s is not None and kept.due_s <= now_s:
                self._part_with(kept, "tried again")

    @property
    def due_s(self) -> float:
        """When there is something to do next, on the monotonic clock; infinity if nothing."""
        ends_s = [grant.deadline_s for grant in self._grants.values()]
        tries_s = [kept.due_s for kept in self._kept.values() if kept.due_s is not None]
        return min(ends_s + tries_s, default=inf)

    @property
    def pending(self) -> tuple[PendingRestore, ...]:
        """What should have been restored but could not be yet."""
        return tuple(kept.pending for kept in self._kept.values())

    @property
    def leases(self) -> tuple[HeldLease, ...]:
        """Who has what on loan."""
        now_s = time.monotonic()
        return tuple(
            HeldLease(
                address=grant.kept.address,
                pid=connection.peer.pid,
                uid=connection.peer.uid,
                note=grant.note,
                expires_in_s=grant.deadline_s - now_s,
                point=grant.kept.point.label,
            )
            for connection, grant in self._grants.items()
        )

    def _granted(self, connection: Connection) -> Grant:
        try:
            return self._grants[connection]
        except KeyError:
            raise GuardError("This connection holds no lease; ask for one first.") from None

    def _require_free(self, address: DeviceAddress) -> None:
        for holder, grant in self._grants.items():
            if _key(grant.kept.address) == _key(address):
                raise GuardError(
                    f"{address.uuid} is leased to pid {holder.peer.pid} of uid {holder.peer.uid} "
                    f"({grant.note or 'no note'}); wait until it lets go, or end it."
                )
        kept = self._kept.get(_key(address))
        if kept is not None and not self._give_back(kept, "leased again"):
            raise GuardError(
                f"{address.uuid} cannot be leased, since it is not back at its former settings "
                f"yet: {kept.pending.error}"
            )

    def _part_with(self, kept: KeptDevice, cause: str) -> None:
        if self._give_back(kept, cause):
            kept.close()

    def _give_back(self, kept: KeptDevice, cause: str) -> bool:
        """Restore; what cannot be restored stays in keeping."""
        was_set, borrower = kept.is_set, kept.borrower
        restored = kept.restore(cause)
        if restored and was_set:
            audit.note("restored", kept.address, *borrower, cause)
        elif not restored and kept.pending.attempts == 1:
            audit.note("unrestored", kept.address, *borrower, kept.pending.error)
        if restored:
            self._kept.pop(_key(kept.address), None)
        else:
            self._kept[_key(kept.address)] = kept
        return restored


def _key(address: DeviceAddress) -> Key:
    return address.uuid, address.store
