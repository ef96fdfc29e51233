"""A program that is run for its user: signals go through to it, and its end is noted.

Imports little, so that the program starts before anything heavy is imported to measure it.
"""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # would delay the program's start
    from psutil import Process

PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_PR_SET_CHILD_SUBREAPER = 36
HELD = {*PASSED_ON, signal.SIGCHLD}
"""What is held back while a program runs; a thread that does not would take it."""
_LOOK_S = 1.0  # the program's end is looked for this often should the kernel not tell of it


class Child:
    """A program, with this process's input, output, terminal and process group.

    The kernel itself gives Ctrl-C on a terminal to every process of the group, and so to the
    program; only signals that another process sent to this one are passed on. What the program
    leaves behind becomes a child of this process, so that it can be named.

    From its making on, signals are held back in this thread and in those that it starts; so it
    must be made before there are others, and left in the end, whether the program was started or
    not. A signal that comes before the program ends this process.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self.pid: int | None = None
        self.started_s = self.ended_s = 0.0
        self.status = 0
        self._outliving: dict[Process, str] = {}
        self._is_left = False
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._attend, name="joulelab-child", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Start the program; OSError if it cannot be started."""
        _adopt_orphans(True)
        with self._turn:
            self.started_s = time.monotonic()
            self.pid = os.posix_spawnp(
                self.command[0], self.command, os.environ, setsigmask=self._mask
            )

    @property
    def exit_code(self) -> int:
        """Exit code as shells tell it: 128 and the number of the signal that ended it."""
        return self.status if self.status >= 0 else 128 - self.status

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that ended it, if one did."""
        return None if self.status >= 0 else signal.Signals(-self.status).name

    def wait(self) -> float:
        """Wait until it has ended; return how long it ran, in seconds."""
        self._thread.join()
        return self.ended_s - self.started_s

    def leave(self) -> None:
        """Hold signals back no longer; a program that was started must have been waited for."""
        self._is_left = True
        if self._thread.ident is not None and self._thread.is_alive():  # it never started
            signal.pthread_kill(self._thread.ident, signal.SIGCHLD)
        self._thread.join()
        _adopt_orphans(False)  # those of later children are init's to wait for
        while signal.sigtimedwait(HELD, 0) is not None:
            pass  # were meant for it and came too late
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def outlived_by(self) -> tuple[str, ...]:
        """Return the processes that still ran when it ended, each by its id and name.

        This process must have ended all other children. What ended since is named too: a process
        that the program left is this one's child then, which nobody has waited for.
        """
        return tuple(
            f"{left.pid} ({name})" for left, name in self._outliving.items() if left.is_running()
        )

    def _attend(self) -> None:
        while not self._has_ended():
            caught = signal.sigtimedwait(HELD, _LOOK_S)
            if caught is None or caught.si_signo == signal.SIGCHLD:
                continue
            with self._turn:
                if self.pid is None:
                    os._exit(128 + caught.si_signo)  # a guard restores what was borrowed
            if caught.si_code <= 0:  # sent by a process: the kernel's own went to the program too
                os.kill(self.pid, caught.si_signo)

    def _has_ended(self) -> bool:
        with self._turn:
            if self.pid is None:
                return self._is_left
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.ended_s = time.monotonic()
            self.status = os.waitstatus_to_exitcode(status)
            self._outliving = _running_descendants()
        return bool(pid)


def _adopt_orphans(is_on: bool) -> None:
    """Have the processes that descendants leave behind become children of this one: prctl(2)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


def _running_descendants() -> "dict[Process, str]":
    """Return what runs below this process, with its name."""
    import psutil

    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has gone meanwhile
            if process.status() != psutil.STATUS_ZOMBIE:
                found[process] = process.name()
    return found
