"""The client's end of a connection: one request, one reply."""

import os
import socket
import time
from pathlib import Path
from typing import Any, Self

from joulelab.errors import GuardError, JouleLabError
from joulelab.guard.connection import Peer, peer_of
from joulelab.guard.protocol import LONGEST_LINE_B, PROTOCOL, decode, encode, result_of
from joulelab.guard.settings import require_trusted
from joulelab.guard.waiting import is_readable

_TURN_S = 0.001


class Link:
    """A connection to a guard.

    Args:
        socket_path: Where the guard listens.
        timeout_s: Longest wait for a reply.

    Raises:
        FileNotFoundError: If no guard listens there.
        ConnectionRefusedError: If a guard that listened there is gone.
        GuardError: If this user may not connect, or if it is neither root's nor this user's: any
            other user's would be believed whatever it said.
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
        """Ask for ``do`` and wait for the answer.

        Args:
            do: What to do.
            any_version: Whether an answer in another version of the protocol is good, too.
            arguments: What it needs to know.

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
