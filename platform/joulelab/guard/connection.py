"""One client of the guard: its socket and its process."""

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from joulelab.guard.protocol import LONGEST_LINE_B, encode
from joulelab.guard.waiting import is_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end, as the kernel says.

    Attributes:
        pid: Its process id; 0 if it lives where the guard cannot see it.
        uid: Its user.
    """

    pid: int
    uid: int


class Connection:
    """A client's connection; closed by either end, or when its process ends.

    The process is watched besides the socket, because a child that it forked may hold a copy
    of the socket open after its parent was killed.

    Raises:
        ProcessLookupError: If the process is gone already.
    """

    def __init__(self, link: socket.socket) -> None:
        self.socket = link
        self.peer = peer_of(link)
        self.pidfd = _pidfd(self.peer.pid)
        self.closed = False
        self._received = b""
        link.setblocking(False)

    def lines(self) -> Iterator[bytes]:
        """Yield the requests that have arrived.

        Raises:
            ConnectionError: If the client is gone, or sends what cannot be a request.
        """
        with suppress(BlockingIOError):
            received = self.socket.recv(LONGEST_LINE_B)
            if not received:
                raise ConnectionResetError("connection closed")
            self._received += received
        *lines, self._received = self._received.split(b"\n")
        if len(self._received) > LONGEST_LINE_B:
            raise ConnectionAbortedError("request too long")
        yield from lines

    def send(self, message: Mapping[str, Any]) -> None:
        """Send ``message``.

        Raises:
            ConnectionError: If the client is gone or does not read its replies.
        """
        line = encode(message)
        try:
            sent = self.socket.send(line)
        except BlockingIOError:
            sent = 0
        if sent < len(line):
            raise ConnectionAbortedError("client does not read")

    def is_over(self) -> bool:
        """Whether the client is gone, though the event loop may not have come to it yet."""
        if self.pidfd is not None and is_readable(self.pidfd):
            return True
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the socket and stop watching the process."""
        self.closed = True
        self.socket.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


def peer_of(link: socket.socket) -> Peer:
    """Ask the kernel who is at the other end."""
    packed = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", packed)
    return Peer(pid=pid, uid=uid)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
