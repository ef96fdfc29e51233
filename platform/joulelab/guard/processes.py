"""The processes of a guard: how one is started, shows that it lives, and is waited for.

A guard that stands still must be noticed before anybody relies on it.
"""

import os
import re
import select
import socket
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from joulelab.errors import GuardError
from joulelab.guard.settings import GuardSettings


def daemon_command(settings: GuardSettings, *extra: str) -> list[str]:
    """Return the command line that starts a daemon with ``settings``."""
    command = [sys.executable, "-P", "-m", "joulelab.guard.daemon", str(settings.socket_path)]
    command += ["--max-ttl-s", str(settings.max_ttl_s)]
    if settings.idle_exit_s is not None:
        command += ["--idle-exit-s", str(settings.idle_exit_s)]
    return command + list(extra)


def daemon_environment() -> dict[str, str]:
    """Return the environment of a daemon: this package, and no threads in numpy.

    A watchdog forks, which is safe only in a process with one thread.
    """
    source_root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    path = source_root if not inherited else source_root + os.pathsep + inherited
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


BEAT_S = 1.0
MUTE_S = 30.0
"""A driver without persistence mode takes ten seconds and more to open a GPU."""


class Heartbeat:
    """Writes into a file when this process was last alive, on the clock that all share."""

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
    """Whether process ``pid`` is stopped, or its file tells that it has been mute for ``mute_s``.

    The file is that of its :class:`Heartbeat`; one of another process tells nothing.
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


def is_readable(file: int, timeout_s: float | None = 0.0) -> bool:
    """Whether ``file`` can be read, or its process has ended if it is a pidfd.

    It is waited for; ``None`` waits for ever.
    """
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(None if timeout_s is None else timeout_s * 1000))


@contextmanager
def wait_until_ended(pids: Sequence[int], timeout_s: float) -> Generator[None]:
    """Take hold of ``pids``, and after the ``with`` block wait until all of them have ended.

    Raises GuardError if one has not after ``timeout_s``.
    """
    with ExitStack() as held:
        pidfds = {}
        for pid in pids:
            try:
                pidfds[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            held.callback(os.close, pidfds[pid])
        yield
        deadline_s = time.monotonic() + timeout_s
        for pid, pidfd in pidfds.items():
            if not is_readable(pidfd, max(0.0, deadline_s - time.monotonic())):
                raise GuardError(f"Process {pid} has not ended within {timeout_s:g} s.")
