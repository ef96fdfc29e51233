"""The guard's event loop: whom it hears, and what it answers."""

import logging
import os
import selectors
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from math import inf
from typing import Any

from joulelab.errors import ConfigError, GuardError, JouleLabError
from joulelab.guard.connection import Connection
from joulelab.guard.journal import Journal
from joulelab.guard.kept_device import OpenDevice
from joulelab.guard.lending import Lending, open_registered
from joulelab.guard.protocol import (
    GuardStatus,
    PendingRestore,
    address_from,
    decode,
    error_reply,
    point_from,
)
from joulelab.guard.settings import GuardSettings

Answer = Callable[[Connection, Mapping[str, Any]], Any]

_log = logging.getLogger(__name__)


class GuardServer:
    """Lends the clocks of this node's devices: one connection, one lease, one device.

    One thread does everything: a request takes about a millisecond, and there is no moment at
    which two of them see half of each other's work. Serving ends by :meth:`stop`, by a
    client's request, or by idleness.

    Args:
        settings: Where to listen and whom to serve.
        open_device: How to open a device.
    """

    def __init__(self, settings: GuardSettings, open_device: OpenDevice = open_registered) -> None:
        self.watchdog_pid: int | None = None
        self._settings = settings
        self._lending = Lending(Journal(settings.state_dir), open_device)
        self._connections: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._idle_since_s = time.monotonic()
        self._answers: dict[str, Answer] = {
            "lease": self._lease,
            "apply": self._apply,
            "reset": self._reset,
            "renew": self._renew,
            "release": self._release,
            "status": self._status,
            "stop": self._stop,
        }

    @property
    def pending(self) -> tuple[PendingRestore, ...]:
        """What should have been restored but could not be yet."""
        return self._lending.pending

    def watch(self, file: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` from the loop whenever the descriptor ``file`` can be read."""
        self._selector.register(file, selectors.EVENT_READ, callback)

    def unwatch(self, file: int) -> None:
        """Look at the descriptor ``file`` no more."""
        self._selector.unregister(file)

    def stop(self) -> None:
        """End the serving after the current request."""
        self._stopping = True

    def serve(self) -> None:
        """Restore what a guard before this one left, then serve until told to stop.

        On the way out every device is restored; one that cannot be stays in the journal.
        """
        self._lending.recover()
        listener = _listen(self._settings)
        self.watch(listener.fileno(), lambda: self._accept(listener))
        try:
            while not self._stopping:
                for key, _ in self._selector.select(self._wait_s()):
                    key.data()
                self._tend()
        finally:
            self._settings.socket_path.unlink(missing_ok=True)
            listener.close()
            for connection in tuple(self._connections):
                self._drop(connection, "guard stopped")
            self._selector.close()

    def retry_until(self, deadline_s: float) -> None:
        """After serving, go on trying to restore what is pending, until ``deadline_s``."""
        while self.pending and time.monotonic() < deadline_s:
            time.sleep(max(0.0, min(self._lending.due_s, deadline_s) - time.monotonic()))
            self._lending.retry()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            link, _ = listener.accept()
            self._welcome(link)

    def _welcome(self, link: socket.socket) -> None:
        try:
            connection = Connection(link)
        except ProcessLookupError:
            link.close()
            return
        self._connections.add(connection)
        self.watch(link.fileno(), lambda: self._read(connection))
        if connection.pidfd is not None:
            self.watch(connection.pidfd, lambda: self._drop(connection, "process ended"))

    def _read(self, connection: Connection) -> None:
        if connection.closed:
            return
        try:
            for line in connection.lines():
                connection.send(self._reply(connection, line))
        except ConnectionError as error:
            self._drop(connection, str(error))

    def _reply(self, connection: Connection, line: bytes) -> dict[str, Any]:
        try:
            request = decode(line)
            return {"ok": self._answer_to(request)(connection, request)}
        except JouleLabError as error:
            return error_reply(error)
        except Exception as error:
            _log.exception("A request of pid %d failed.", connection.peer.pid)
            return error_reply(GuardError(f"The clock guard failed to do that: {error!r}."))

    def _answer_to(self, request: Mapping[str, Any]) -> Answer:
        answer = self._answers.get(str(request.get("do")))
        if answer is None:
            raise ConfigError(f"do must be one of {', '.join(self._answers)}, got {request!r}.")
        return answer

    def _lease(self, connection: Connection, request: Mapping[str, Any]) -> dict[str, Any]:
        address = address_from(request.get("address"))
        if address.store is not None and connection.peer.uid != os.getuid():
            raise GuardError(
                f"This clock guard runs as uid {os.getuid()} and writes files for that user only; "
                "start a guard of your own for simulated or recorded devices."
            )
        note, ttl_s = str(request.get("note", ""))[:200], self._ttl_s(request.get("ttl_s"))
        for other in tuple(self._connections):
            if other.is_over():
                self._drop(other, "connection closed")
        self._lending.lend(connection, address, note=note, ttl_s=ttl_s)
        return {"guard_pid": os.getpid()}

    def _apply(self, connection: Connection, request: Mapping[str, Any]) -> dict[str, Any]:
        return asdict(self._lending.apply(connection, point_from(request.get("point"))))

    def _reset(self, connection: Connection, _: Mapping[str, Any]) -> None:
        self._lending.reset(connection)

    def _renew(self, connection: Connection, _: Mapping[str, Any]) -> None:
        self._lending.renew(connection)

    def _release(self, connection: Connection, _: Mapping[str, Any]) -> None:
        self._lending.take_back(connection, "given back")

    def _status(self, _: Connection, __: Mapping[str, Any]) -> dict[str, Any]:
        status = GuardStatus(
            pid=os.getpid(),
            watchdog_pid=self.watchdog_pid,
            leases=self._lending.leases,
            pending=self._lending.pending,
        )
        return asdict(status)

    def _stop(self, connection: Connection, _: Mapping[str, Any]) -> None:
        if connection.peer.uid not in (0, os.getuid()):
            raise GuardError(f"Only uid {os.getuid()} or root may stop this clock guard.")
        for other in tuple(self._connections - {connection}):
            self._drop(other, "stop asked")
        if self.pending:
            names = ", ".join(f"{one.address.uuid} ({one.error})" for one in self.pending)
            raise GuardError(f"The clock guard stays, since it cannot restore {names} yet.")
        self.stop()

    def _ttl_s(self, asked: Any) -> float:
        longest_s = self._settings.max_ttl_s
        if type(asked) not in (int, float) or not 0 < asked <= longest_s:
            raise ConfigError(f"ttl_s must be above 0 and at most {longest_s}, got {asked!r}.")
        return float(asked)

    def _drop(self, connection: Connection, cause: str) -> None:
        if connection.closed:
            return
        self._connections.discard(connection)
        self.unwatch(connection.socket.fileno())
        if connection.pidfd is not None:
            self.unwatch(connection.pidfd)
        self._lending.take_back(connection, cause)
        connection.close()

    def _tend(self) -> None:
        for connection in self._lending.expired():
            self._expire(connection)
        self._lending.retry()
        if self._is_busy:
            self._idle_since_s = time.monotonic()
        elif time.monotonic() >= self._idle_deadline_s:
            self.stop()

    def _expire(self, connection: Connection) -> None:
        message = "The lease was not renewed in time, so the device was restored."
        with suppress(ConnectionError):
            connection.send(error_reply(GuardError(message)))
        self._drop(connection, "lease expired")

    def _wait_s(self) -> float | None:
        idle_s = inf if self._is_busy else self._idle_deadline_s
        due_s = min(self._lending.due_s, idle_s)
        return None if due_s == inf else max(0.0, due_s - time.monotonic())

    @property
    def _is_busy(self) -> bool:
        return bool(self._connections or self.pending)

    @property
    def _idle_deadline_s(self) -> float:
        idle_exit_s = self._settings.idle_exit_s
        return inf if idle_exit_s is None else self._idle_since_s + idle_exit_s


def _listen(settings: GuardSettings) -> socket.socket:
    """Listen under another name first: the path appears when connections are welcome."""
    path = settings.socket_path
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.setblocking(False)
    umask = os.umask(0o177)
    try:
        listener.bind(str(draft))
    finally:
        os.umask(umask)
    if settings.group is not None:
        shutil.chown(draft, group=settings.group)
        draft.chmod(0o660)
    listener.listen(64)
    draft.replace(path)
    return listener
