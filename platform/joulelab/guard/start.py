"""Make sure that a guard is there."""

import fcntl
import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from joulelab.core.codec import decoded
from joulelab.errors import GuardError
from joulelab.guard.connection import Link
from joulelab.guard.processes import daemon_command, daemon_environment, wait_until_ended
from joulelab.guard.protocol import GuardStatus
from joulelab.guard.settings import SYSTEM_SOCKET, GuardSettings

IDLE_EXIT_S = 300.0
"""After so long without a client, a guard that was started on demand ends."""

_PROBE_S = 2.0
_SYSTEM_RESTART_S = 5.0
_START_S = 30.0
_RELAUNCH_S = 5.0


def ensure_guard(socket_path: Path, *, idle_exit_s: float | None = IDLE_EXIT_S) -> None:
    """Return once a guard answers at ``socket_path``, starting one if need be.

    The guard that is started belongs to no one: it outlives this process and the session, process
    group and Ray worker that it was started from (not a cgroup that is killed whole). It ends after
    ``idle_exit_s`` without clients. Any number of processes may call this at once; one guard comes
    of it. Raises GuardError if it does not answer in time, or this user may not use it; says why.
    """
    try:
        if answers(socket_path):
            return
    except GuardError:
        if not _ended_idle_one(socket_path):
            raise
    if not may_start(socket_path):
        _wait_for_answer(SYSTEM_SOCKET, time.monotonic() + _SYSTEM_RESTART_S)
        if not answers(SYSTEM_SOCKET):
            raise GuardError(
                f"This node's clock guard does not answer at {SYSTEM_SOCKET}, so nobody knows what "
                "it left set; its administrator must start it (`systemctl start joulelab-guard`)."
            )
        return
    settings = GuardSettings(socket_path=socket_path, idle_exit_s=idle_exit_s)
    settings.make_folders()
    deadline_s = time.monotonic() + _START_S
    with _one_at_a_time(settings.state_dir / "start.lock"):
        while not answers(socket_path):
            if time.monotonic() > deadline_s:
                raise GuardError(
                    f"No clock guard answers at {socket_path} after {_START_S:g} s; "
                    f"see {settings.log_path}."
                )
            _launch(settings)
            _wait_for_answer(socket_path, min(deadline_s, time.monotonic() + _RELAUNCH_S))


def answers(socket_path: Path) -> bool:
    """Return whether a guard listens at ``socket_path`` and replies.

    Raises GuardError if one listens that does not serve this user.
    """
    try:
        with Link(socket_path, timeout_s=_PROBE_S) as link:
            link.request("status")
    except OSError:
        return False
    return True


def may_start(socket_path: Path) -> bool:
    """Return whether this user may start a guard at ``socket_path``; the node's is for root."""
    return socket_path != SYSTEM_SOCKET or os.access(SYSTEM_SOCKET.parent, os.W_OK)


def nobody_listens(socket_path: Path) -> bool:
    """Return whether no guard has ``socket_path`` open; that of a killed one is still there.

    Raises GuardError if this user may not connect, or whoever listens is not to be trusted.
    """
    try:
        Link(socket_path, timeout_s=_PROBE_S).close()
    except (FileNotFoundError, ConnectionRefusedError):
        return True
    except OSError:  # it listens, and is too busy to accept
        return False
    return False


def _ended_idle_one(socket_path: Path) -> bool:
    """End a guard of another version of this package that nobody uses; return whether that worked.

    Raises GuardError if it is not ours to end.
    """
    try:
        with Link(socket_path) as link:
            status = decoded(GuardStatus, link.request("status", any_version=True))
            if status.leases or status.pending:
                return False
            pids = [pid for pid in (status.watchdog_pid, status.pid) if pid is not None]
            with wait_until_ended(pids, _RELAUNCH_S):
                link.request("stop", any_version=True)
    except OSError:
        return False
    return True


def _launch(settings: GuardSettings) -> None:
    done = subprocess.run(
        daemon_command(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=daemon_environment(),
        cwd="/",
        check=False,
    )
    if done.returncode:
        raise GuardError(f"The clock guard did not start: {done.stderr.strip()[-2000:]}")


def _wait_for_answer(socket_path: Path, deadline_s: float) -> None:
    while not answers(socket_path) and time.monotonic() < deadline_s:
        time.sleep(0.02)


@contextmanager
def _one_at_a_time(path: Path) -> Generator[None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
