"""Signs of life: a guard that stands still must be noticed before anybody relies on it."""

import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path

BEAT_S = 1.0
MUTE_S = 30.0
"""A driver without persistence mode takes ten seconds and more to open a GPU."""


class Heartbeat:
    """Writes into a file when this process was last alive, on the clock that all processes share.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.beat()

    def beat(self) -> None:
        """Say that this process is alive."""
        os.pwrite(self._file, f"{os.getpid():<10d} {time.monotonic():<20.3f}\n".encode(), 0)

    def close(self) -> None:
        """Say nothing more."""
        os.close(self._file)


def author_of(path: Path) -> int | None:
    """Return the process that wrote a heartbeat last; ``None`` if there is none."""
    with suppress(OSError, ValueError):
        return int(path.read_text().split()[0])
    return None


def stands_still(pid: int, path: Path, *, mute_s: float = MUTE_S) -> bool:
    """Whether process ``pid`` is stopped, or its file tells that it has been mute for long.

    Args:
        pid: A process.
        path: The file of its :class:`Heartbeat`; one of another process tells nothing.
        mute_s: How long it may be mute.
    """
    if is_stopped(pid):
        return True
    with suppress(OSError, ValueError):
        author, at_s = path.read_text().split()
        return int(author) == pid and time.monotonic() - float(at_s) > mute_s
    return False


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped process ``pid``."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return re.search(r"^State:\s+[Tt]", status, re.MULTILINE) is not None
    return False


def notify_systemd(text: str) -> None:
    """Tell systemd ``text`` (``READY=1``, ``WATCHDOG=1``), if it started this process and asks.

    See ``sd_notify(3)``.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.sendto(text.encode(), address.replace("@", "\0", 1))
