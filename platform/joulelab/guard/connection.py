"""One client of the guard: its socket and its process."""

import os
import socket
import struct
import time
from collections.abc import Mapping
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
        OSError: If it cannot be watched, as for lack of descriptors.
    """

    def __init__(self, link: socket.socket) -> None:
        self.socket = link
        self.peer = peer_of(link)
        self.pidfd = os.pidfd_open(self.peer.pid) if self.peer.pid else None
        self.closed = False
        self.heard_s = time.monotonic()
        """When it was made, or last asked for something."""
        self._received = b""
        link.setblocking(False)

    def request(self) -> bytes | None:
        """Return the request that has arrived, or ``None`` while it is not whole.

        Raises:
            ConnectionError: If the client is gone, or sends what cannot be a request. A client
                waits for its answer before it asks again: nobody keeps others waiting.
        """
        try:
            received = self.socket.recv(LONGEST_LINE_B)
        except BlockingIOError:
            return None
        if not received:
            raise ConnectionResetError("connection closed")
        self._received += received
        if len(self._received) > LONGEST_LINE_B:
            raise ConnectionAbortedError("request too long")
        line, end, more = self._received.partition(b"\n")
        if more:
            raise ConnectionAbortedError("more than one request at a time")
        if not end:
            return None
        self._received = b""
        self.heard_s = time.monotonic()
        return line

    def send(self, message: Mapping[str, Any]) -> None:
        """Send ``message``.

        Raises:
            OSError: If the client is gone or does not read its replies.
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
