"""Borrow the clocks of a device from the guard of this node."""

import logging
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from joulelab.core.codec import decoded
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint, Receipt
from joulelab.devices.choice import with_store
from joulelab.errors import GuardError, JouleLabError
from joulelab.guard.connection import Link
from joulelab.guard.processes import wait_until_ended
from joulelab.guard.protocol import GuardStatus
from joulelab.guard.settings import default_socket_path
from joulelab.guard.start import ensure_guard

TTL_S = 30.0
"""How long a lease lasts without renewal, unless asked otherwise."""

_TRIES = 3
_STOP_S = 10.0

_log = logging.getLogger(__name__)


class Lease:
    """One device's knobs on loan: a :class:`~joulelab.devices.base.Control`.

    The loan ends, and the guard restores the device, when this object is closed, when this
    process ends in whatever way, or when it stops renewing, which a thread does every third of
    ``ttl_s``. Get one from :meth:`GuardClient.lease`.
    """

    def __init__(self, link: Link, address: DeviceAddress, ttl_s: float, deadline_s: float) -> None:
        self.address = address
        self._link = link
        self._ttl_s = ttl_s
        self._deadline_s = deadline_s
        self._lost: str | None = None
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="joulelab-lease", daemon=True)
        self._renewer.start()

    def apply(self, point: OperatingPoint) -> Receipt:
        """Put ``point`` in force, and the default for every other knob; return what is read back.

        Raises:
            GuardError: If the lease is lost.
            ForeignSettingError: If something else is in force and may not be undone.
            JouleLabError: What the device says (:class:`ConfigError`, with the neighbours of a
                clock that is not on the grid, :class:`DevicePermissionError`, ...).
        """
        return decoded(Receipt, self._request("apply", point=asdict(point)))

    def reset(self) -> None:
        """Return every knob to what it was before the lease.

        A lost lease is no error here: the guard restores what it takes back.
        """
        try:
            self._request("reset")
        except GuardError as error:
            _log.warning(
                "Left the restoring of %s to the clock guard: %s", self.address.uuid, error
            )

    def require_held(self) -> None:
        """Raise :class:`GuardError` if the point may no longer be in force.

        It may not if the guard died or took the lease back, or if it could have, since
        the last renewal that it confirmed is ``ttl_s`` ago. Never waits for the guard.
        """
        if not self._link.is_own:
            raise GuardError("A lease belongs to the process that took it, not to its children.")
        if self._lost is None and self._turn.acquire(blocking=False):
            try:
                self._lose(self._link.news())
            finally:
                self._turn.release()
        if self._lost is None and time.monotonic() > self._deadline_s:
            self._lose(f"it was not renewed for {self._ttl_s:g} s")
        if self._lost is not None:
            raise GuardError(f"The lease of {self.address.uuid} is lost: {self._lost}.")

    def close(self) -> None:
        """Give the device back; it is restored when this returns. Safe to call twice."""
        if not self._link.is_own:
            self._link.close()
            return
        self._closing.set()
        self._renewer.join()
        if self._lost is None:
            with suppress(GuardError):
                self._request("release")
            self._lose("it was given back")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lose(self, why: str | None) -> None:
        """Note that the lease has ended, if there is a reason, and hang up."""
        if why is not None:
            self._lost = why
            self._link.close()

    def _renew(self) -> None:
        while not self._closing.wait(self._ttl_s / 3):
            try:
                self._request("renew")
            except JouleLabError:
                return  # require_held says so to whoever relies on the lease

    def _request(self, do: str, **arguments: Any) -> Any:
        self.require_held()
        with self._turn:
            sent_s = time.monotonic()
            try:
                result = self._link.request(do, **arguments)
            except OSError as error:
                self._lose(str(error))
                raise GuardError(f"The lease of {self.address.uuid} is lost: {error}.") from error
        self._deadline_s = sent_s + self._ttl_s
        return result


class GuardClient:
    """Asks the guard of this node for leases, starting one if none is there, unless asked not to.

    ``socket_path`` ``None`` takes the system's guard if there is one, else this user's own; for
    what is no hardware always the latter.
    """

    def __init__(self, socket_path: Path | None = None, *, start: bool = True) -> None:
        self.socket_path = socket_path or default_socket_path()
        self._is_given = socket_path is not None
        self._start = start

    def lease(self, address: DeviceAddress, note: str = "", ttl_s: float = TTL_S) -> Lease:
        """Borrow the device at ``address``; others who ask for it get the note.

        The guard takes it back after ``ttl_s`` if this process neither ends nor renews.

        Raises:
            GuardError: If another holds it (names the process), or no guard answers.
            JouleLabError: What the device's backend says on opening it.
        """
        address = with_store(address)
        path = self.socket_path if self._is_given else default_socket_path(address)
        request = {"address": asdict(address), "note": note, "ttl_s": ttl_s}
        for _ in range(_TRIES):
            try:
                return self._try_to_lease(path, address, request, ttl_s)
            except OSError as error:
                _log.info("The clock guard went while it was asked (%s); asking again.", error)
        raise _absent(path)

    def status(self, *, any_version: bool = False, timeout_s: float = 30.0) -> GuardStatus:
        """Return who holds what, also by a guard of ``any_version``; starts no guard.

        Raises GuardError if no guard answers.
        """
        try:
            with Link(self.socket_path, timeout_s=timeout_s) as link:
                return decoded(GuardStatus, link.request("status", any_version=any_version))
        except OSError as error:
            raise _absent(self.socket_path) from error

    def stop(self) -> None:
        """Have the guard restore everything and end, and wait until it is gone.

        Raises GuardError if none answers, this user may not stop it, or it cannot restore a device
        and therefore stays.
        """
        status = self.status(any_version=True)
        pids = [pid for pid in (status.pid, status.watchdog_pid) if pid is not None]
        with wait_until_ended(pids, _STOP_S):
            try:
                with Link(self.socket_path) as link:
                    link.request("stop", any_version=True)
            except OSError as error:
                raise _absent(self.socket_path) from error

    def _try_to_lease(
        self, path: Path, address: DeviceAddress, request: dict[str, Any], ttl_s: float
    ) -> Lease:
        if self._start:
            ensure_guard(path)
        link = Link(path)
        sent_s = time.monotonic()
        try:
            link.request("lease", **request)
        except (JouleLabError, OSError):
            link.close()
            raise
        return Lease(link, address, ttl_s, sent_s + ttl_s)


def _absent(path: Path) -> GuardError:
    return GuardError(f"No clock guard answers at {path}; start one with `joulelab guard`.")
