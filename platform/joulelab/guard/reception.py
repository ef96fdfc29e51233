"""Whom the guard hears: its connections, bounded in number, each with one request a turn."""

import logging
import selectors
import shutil
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from math import inf
from os import umask
from typing import Any

from joulelab.guard.connection import Connection
from joulelab.guard.settings import GuardSettings

MOST_CONNECTIONS = 256
"""Each takes two descriptors, of which a process has a thousand."""
MOST_OF_ONE_USER = 64
_IDLE_S = 10.0
"""After so long without a request, a connection without a lease is closed."""
_ACCEPTS_A_TURN = 16
_ACCEPT_PAUSE_S = 0.1

_log = logging.getLogger(__name__)


class Reception:
    """The listening socket and its connections.

    Nobody can keep the others from being served: who holds nothing and has been silent longest must
    make room, and what goes wrong with one connection ends that one alone. ``selector`` watches
    descriptors; its data are functions to call. ``ended`` gets a connection that ends, and
    why, before it is closed.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        *,
        answer: Callable[[Connection, bytes], Mapping[str, Any]],
        holds: Callable[[Connection], bool],
        ended: Callable[[Connection, str], None],
    ) -> None:
        self._selector = selector
        self._answer = answer
        self._holds = holds
        self._ended = ended
        self._connections: dict[Connection, None] = {}
        self._listener: socket.socket | None = None
        self._accept_again_s = inf

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over the connections that there are now, whatever becomes of them meanwhile."""
        return iter(tuple(self._connections))

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._connections)

    @property
    def due_s(self) -> float:
        """When there is something to do though nobody asks, on the monotonic clock."""
        return self._accept_again_s

    def open(self, settings: GuardSettings) -> None:
        """Begin to listen."""
        self._listener = _listen(settings)
        self._await_clients()

    def close(self, cause: str) -> None:
        """Listen no more, and end every connection."""
        if self._listener is not None:
            self._listener.close()
        for connection in self:
            self.drop(connection, cause)

    def drop(self, connection: Connection, cause: str) -> None:
        """End a connection."""
        if connection.closed:
            return
        del self._connections[connection]
        self._selector.unregister(connection.socket)
        if connection.pidfd is not None:
            self._selector.unregister(connection.pidfd)
        self._ended(connection, cause)
        connection.close()

    def tend(self) -> None:
        """Send away who has nothing to say, and hear again who had to wait."""
        now_s = time.monotonic()
        for connection in self:
            if connection.heard_s < now_s - _IDLE_S and not self._holds(connection):
                self.drop(connection, "idle")
        if now_s >= self._accept_again_s:
            self._await_clients()

    def _await_clients(self) -> None:
        self._accept_again_s = inf
        if self._listener is not None:
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                link, _address = self._listener.accept()  # type: ignore[union-attr]
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._make_room(error)
                return
            self._welcome(link)

    def _make_room(self, error: OSError) -> None:
        """Do without a client that holds nothing; if all hold something, newcomers must wait."""
        _log.warning("Cannot accept another connection: %s", error)
        if not self._drop_idlest(self._connections) and self._listener is not None:
            self._selector.unregister(self._listener)
            self._accept_again_s = time.monotonic() + _ACCEPT_PAUSE_S

    def _connection(self, link: socket.socket) -> Connection | None:
        """Return the connection of ``link``; a second try may find the descriptor that it needs."""
        for _ in range(2):
            try:
                return Connection(link)
            except ProcessLookupError:
                break
            except OSError:
                self._drop_idlest(self._connections)
        link.close()
        return None

    def _welcome(self, link: socket.socket) -> None:
        connection = self._connection(link)
        if connection is None:
            return
        self._connections[connection] = None
        self._watch(link, lambda: self._read(connection))
        if connection.pidfd is not None:
            self._watch(connection.pidfd, lambda: self.drop(connection, "process ended"))
        self._read(connection)  # who asks at once cannot be the one to make room
        fellows = [c for c in self._connections if c.peer.uid == connection.peer.uid]
        for crowd, most in ((fellows, MOST_OF_ONE_USER), (self._connections, MOST_CONNECTIONS)):
            if len(crowd) > most and not self._drop_idlest(crowd):
                self.drop(connection, "too many connections")

    def _watch(self, file: socket.socket | int, callback: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, callback)

    def _drop_idlest(self, crowd: Collection[Connection]) -> bool:
        """End the connection without a lease that has been silent longest, if there is one."""
        idle = [c for c in crowd if not c.closed and not self._holds(c)]
        if idle:
            self.drop(min(idle, key=lambda c: c.heard_s), "too many connections")
        return bool(idle)

    def _read(self, connection: Connection) -> None:
        if connection.closed:
            return
        try:
            line = connection.request()
            if line is not None:
                connection.send(self._answer(connection, line))
        except OSError as error:
            self.drop(connection, str(error))


def _listen(settings: GuardSettings) -> socket.socket:
    """Listen under another name first: the path appears when connections are welcome."""
    path = settings.socket_path
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.setblocking(False)
    before = umask(0o177)
    try:
        listener.bind(str(draft))
    finally:
        umask(before)
    if settings.group is not None:
        if draft.group() != settings.group:
            shutil.chown(draft, group=settings.group)
        draft.chmod(0o660)
    listener.listen(64)
    draft.replace(path)
    return listener
