"""A guard as a process of its own: one per state folder, ended by signals, watched."""

import fcntl
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from joulelab.errors import GuardError, JouleLabError
from joulelab.guard.connection import Link
from joulelab.guard.policy import Gate
from joulelab.guard.processes import (
    Heartbeat,
    author_of,
    daemon_command,
    daemon_environment,
    is_readable,
    is_stopped,
    notify_systemd,
    stands_still,
)
from joulelab.guard.server import GuardServer
from joulelab.guard.settings import GuardSettings

_ENDINGS = (signal.SIGTERM, signal.SIGINT)
_LOCK_WAIT_S = 3.0
_LAST_RESTORE_S = 5.0
_PARTING_S = 2.0
_QUICK_DEATH_S = 1.0
_MOST_QUICK_DEATHS = 20

_log = logging.getLogger(__name__)


def run_guard(
    settings: GuardSettings,
    *,
    watchdog_pid: int | None = None,
    read_gate: Callable[[], Gate | None] = lambda: None,
) -> int:
    """Run a guard in this process until it is asked to end; return the exit status.

    ``watchdog_pid`` revives this process, and is revived by it; ``None`` if something else
    (systemd, a person) sees to that. ``read_gate`` says who may do what, now and again at every
    SIGHUP; ``None`` lets all who connect. If it cannot say so again, what it said before holds.

    Returns:
        0 if everything was given back; 1 if a device could not be restored, which the
        journal keeps for the next guard.

    Raises:
        ConfigError: If there is no saying who may do what.
        GuardError: If another guard serves the same socket.
    """
    gate = read_gate()
    settings.make_folders()
    with _only_one(settings):
        heartbeat = Heartbeat(settings.heartbeat_path)
        watch: WatchdogWatch | None = None

        def beat() -> None:
            heartbeat.beat()
            notify_systemd("READY=1\nWATCHDOG=1")
            if watch is not None:
                watch.tend()

        server = GuardServer(settings, beat=beat, gate=gate)
        if watchdog_pid is not None:
            watch = WatchdogWatch(server, settings, watchdog_pid)
        with _heeding_signals(server, read_gate):
            server.serve()
        server.retry_until(time.monotonic() + _LAST_RESTORE_S)
        for pending in server.pending:
            _log.error("Left %s unrestored: %s", pending.address.uuid, pending.error)
        if watch is not None:
            watch.end()
        return 1 if server.pending else 0


class WatchdogWatch:
    """The guard's eye on its watchdog, its parent: replaces it when it dies, ends it last."""

    def __init__(self, server: GuardServer, settings: GuardSettings, pid: int) -> None:
        self._server = server
        self._settings = settings
        self._child: subprocess.Popen[bytes] | None = None
        self._pidfd: int | None = None
        self._started_s = time.monotonic()
        self._quick_deaths = 0
        with suppress(ProcessLookupError):
            self._look_at(pid)
        if os.getppid() != pid:
            self._note_death()

    def tend(self) -> None:
        """Start a watchdog where there is none, and end one that stands still."""
        if self._pidfd is None and self._quick_deaths <= _MOST_QUICK_DEATHS:
            self._revive()
        elif self._pidfd is not None and is_stopped(self._server.watchdog_pid or 0):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def end(self) -> None:
        """End the watchdog, so that it does not revive a guard that ends on purpose."""
        if self._pidfd is None:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        is_readable(self._pidfd, _PARTING_S)
        os.close(self._pidfd)
        self._reap()

    def _look_at(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)
        self._server.watchdog_pid = pid
        self._server.watch(self._pidfd, self._note_death)

    def _note_death(self) -> None:
        self._server.watchdog_pid = None
        if self._pidfd is not None:
            self._server.unwatch(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._reap()
        now_s = time.monotonic()
        quick = now_s - self._started_s < _QUICK_DEATH_S
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        self._started_s = now_s
        if self._quick_deaths > _MOST_QUICK_DEATHS:
            _log.error("The watchdog keeps dying; going on without one.")
        else:
            _log.warning("The watchdog died; starting another.")
            self._revive()

    def _revive(self) -> None:
        try:
            self._child = subprocess.Popen(
                daemon_command(self._settings, "--adopt", str(os.getpid())),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=daemon_environment(),
                cwd="/",
            )
            self._look_at(self._child.pid)
        except OSError as error:  # for want of descriptors or memory: tried again at the next beat
            _log.error("Cannot start a watchdog: %s", error)

    def _reap(self) -> None:
        if self._child is not None:
            self._child.wait()
            self._child = None


@contextmanager
def _only_one(settings: GuardSettings) -> Generator[None]:
    """Hold the lock that makes this the only guard; the kernel frees it if we are killed."""
    file = os.open(settings.state_dir / "guard.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file, settings)
        yield
    finally:
        os.close(file)


def _lock(file: int, settings: GuardSettings) -> None:
    """Wait for a guard that is about to end, but not beside one that serves."""
    socket_path = settings.socket_path
    deadline_s = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _end_what_stands_still(settings)
            if _is_served(socket_path) or time.monotonic() > deadline_s:
                raise GuardError(
                    f"Another clock guard serves {socket_path}; use it, or give this one another "
                    "socket."
                ) from None
            time.sleep(0.02)
        else:
            return


def _end_what_stands_still(settings: GuardSettings) -> None:
    """End the guard that has the lock, if neither it nor its watchdog will ever serve again."""
    pid = author_of(settings.heartbeat_path)
    if pid is not None and stands_still(pid, settings.heartbeat_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_served(socket_path: Path) -> bool:
    try:
        Link(socket_path).close()
    except OSError:
        return False
    return True


@contextmanager
def _heeding_signals(server: GuardServer, read_gate: Callable[[], Gate | None]) -> Generator[None]:
    """Let SIGTERM and SIGINT end the serving, also while it waits in ``select``; heed SIGHUP."""
    hung_up: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        _log.info("Signal %d: restoring everything.", number)
        server.stop()

    def note(number: int, _: FrameType | None) -> None:
        hung_up.append(number)  # it may come in the middle of a request

    def drain() -> None:
        read.recv(64)
        if hung_up:
            hung_up.clear()
            try:
                server.obey(read_gate())
            except JouleLabError as error:
                _log.error("SIGHUP: the policy from before holds on. %s", error)
            else:
                _log.info("SIGHUP: the policy was read again.")

    read, write = socket.socketpair()
    with read, write:
        for end in (read, write):
            end.setblocking(False)
        server.watch(read.fileno(), drain)
        handlers = {number: signal.signal(number, stop) for number in _ENDINGS}
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, note)
        descriptor = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(descriptor)
            for number, handler in handlers.items():
                signal.signal(number, handler)
