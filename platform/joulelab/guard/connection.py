"""A connection between the guard and a client, from both ends."""

import os
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from joulelab.errors import GuardError, JouleLabError
from joulelab.guard.processes import is_readable
from joulelab.guard.protocol import LONGEST_LINE_B, PROTOCOL, decode, encode, result_of
from joulelab.guard.settings import require_trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end, as the kernel says."""

    pid: int  # its process id; 0 if it lives where the guard cannot see it
    uid: int
    gids: frozenset[int] = frozenset()  # its groups, when it connected


class Connection:
    """A client's connection; closed by either end, or when its process ends.

    The process is watched besides the socket, because a child that it forked may hold a copy of the
    socket open after its parent was killed. Raises ProcessLookupError if the process is gone
    already; OSError if it cannot be watched, as for lack of descriptors.
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

        Raises ConnectionError if the client is gone, or sends what cannot be a request. A client
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
        """Send ``message``; OSError if the client is gone or does not read its replies."""
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
    pid, uid, gid = struct.unpack("3i", packed)
    others = b""
    with suppress(OSError):  # who is in more groups than fit is in the first alone
        others = link.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS * _GID_B)
    gids = struct.unpack(f"{len(others) // _GID_B}I", others)
    return Peer(pid=pid, uid=uid, gids=frozenset((gid, *gids)))


_SO_PEERGROUPS = 59  # asm-generic/socket.h, since Linux 4.13; Python has no name for it
_MOST_GROUPS = 256  # Python takes no more than a KiB
_GID_B = 4
_TURN_S = 0.001


class Link:
    """A connection to a guard.

    Raises FileNotFoundError if no guard listens there; ConnectionRefusedError if a guard that
    listened there is gone; GuardError if this user may not connect, or if it is neither root's nor
    this user's: any other user's would be believed whatever it said.
    """

    def __init__(self, socket_path: Path, *, timeout_s: float = 30.0) -> None:
        self._pid = os.getpid()
        self._received = b""
        require_trusted(socket_path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._connect(socket_path, time.monotonic() + timeout_s)
        except PermissionError as error:
            self._socket.close()
            raise GuardError(
                f"The clock guard at {socket_path} does not serve uid {os.getuid()}; ask its "
                "administrator to add you to its group, give another socket, or measure with "
                "--observe-only."
            ) from error
        except OSError:
            self._socket.close()
            raise
        if (uid := self.peer.uid) not in (0, os.getuid()):
            self._socket.close()
            raise GuardError(
                f"Who answers at {socket_path} is uid {uid}, neither root nor uid {os.getuid()}; "
                "it may pose as the clock guard. Use another socket."
            )

    def _connect(self, socket_path: Path, deadline_s: float) -> None:
        """Wait for one's turn, which a socket with a time limit does not by itself."""
        while True:
            try:
                self._socket.connect(str(socket_path))
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_TURN_S)
            else:
                return

    @property
    def is_own(self) -> bool:
        """Whether this process opened the link, rather than got a copy of it in a fork."""
        return os.getpid() == self._pid

    @property
    def peer(self) -> Peer:
        """The guard's process."""
        return peer_of(self._socket)

    def request(self, do: str, *, any_version: bool = False, **arguments: Any) -> Any:
        """Ask for ``do`` and wait for the answer, which may be in ``any_version`` of the protocol.

        Raises:
            ConnectionError: If the guard is gone.
            TimeoutError: If it does not answer; the link is of no more use then.
            JouleLabError: What the guard says, in its own class.
        """
        self._socket.sendall(encode({"do": do, **arguments}))
        reply = decode(self._line())
        return result_of({**reply, "protocol": PROTOCOL} if any_version else reply)

    def news(self) -> str | None:
        """Return why the guard ended the link, or ``None`` while it stands; never waits."""
        try:
            if not is_readable(self._socket.fileno()):
                return None
            waiting = self._socket.recv(LONGEST_LINE_B, socket.MSG_PEEK)
        except (OSError, ValueError) as error:  # ValueError: closed on this side
            return str(error)
        try:
            result_of(decode(waiting.partition(b"\n")[0]))
        except JouleLabError as error:
            return str(error) if waiting else "the connection to the clock guard is closed"
        return "the clock guard spoke out of turn"

    def close(self) -> None:
        """Close this process's end. Safe to call twice."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self) -> bytes:
        while b"\n" not in self._received:
            received = self._socket.recv(LONGEST_LINE_B)
            if not received:
                raise ConnectionResetError("the connection to the clock guard is closed")
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line
