"""``python -m joulelab.guard.daemon``: a watchdog, and the guard that it keeps alive.

The watchdog forks the guard, and forks another when that one is killed; having imported
everything and opened nothing, it needs a few milliseconds. The guard in turn starts another
watchdog when its own is killed. Each learns of the other's death from the kernel (pidfd), and
ends one that stands still: a guard that answers nobody restores nothing.
"""

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from joulelab.devices import DEVICES
from joulelab.errors import ConfigError, GuardError, JouleLabError
from joulelab.guard.process import run_guard
from joulelab.guard.processes import is_readable, stands_still
from joulelab.guard.settings import GuardSettings
from joulelab.hardware import GPUS

_NOT_NEEDED = 3
_QUICK_DEATH_S = 1.0
_FREE_DEATHS = 5
_LONGEST_PAUSE_S = 5.0
_LONGEST_LOG_B = 4 * 2**20
_LOOK_S = 0.5

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a daemon and return at once; with ``--adopt``, be the watchdog of a guard."""
    parser = argparse.ArgumentParser(prog="joulelab.guard.daemon")
    parser.add_argument("socket_path", type=Path)
    parser.add_argument("--max-ttl-s", type=float, required=True)
    parser.add_argument("--idle-exit-s", type=float)
    parser.add_argument("--adopt", type=int, metavar="PID")
    options = vars(parser.parse_args(arguments))
    guard_pid: int | None = options.pop("adopt")
    settings = GuardSettings(**options)
    os.umask(0o077)  # what it logs is its user's business
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whoever starts it may hold signals back
    _read_all()
    if guard_pid is not None:
        _log_to(settings.watchdog_log_path)
        return watch_over(settings, guard_pid)
    try:
        settings.make_folders()
    except JouleLabError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what the starter reads
        return 1
    if os.fork():
        return 0
    _log_to(settings.watchdog_log_path)
    os._exit(watch_over(settings))


def watch_over(settings: GuardSettings, guard_pid: int | None = None) -> int:
    """Keep a guard, by default a forked one, alive; its end on purpose ends this process."""
    _name_process("joulelab-watch")
    quick_deaths = 0
    while True:
        started_s = time.monotonic()
        if guard_pid is None:
            guard_pid = _fork_guard(settings)
        if await_end(guard_pid, settings.heartbeat_path) == _NOT_NEEDED:
            return 0
        _log.warning("Guard %d died; starting another.", guard_pid)
        guard_pid = None
        quick = time.monotonic() - started_s < _QUICK_DEATH_S
        quick_deaths = quick_deaths + 1 if quick else 0
        if quick_deaths > _FREE_DEATHS:
            time.sleep(min(0.1 * 2.0 ** (quick_deaths - _FREE_DEATHS), _LONGEST_PAUSE_S))


def _fork_guard(settings: GuardSettings) -> int:
    watchdog_pid = os.getpid()
    guard_pid = os.fork()
    if guard_pid:
        return guard_pid
    status = 70
    try:
        _name_process("joulelab-guard")
        _log_to(settings.log_path)
        status = run_guard(settings, watchdog_pid=watchdog_pid)
    except GuardError as error:
        _log.info("%s", error)
        status = _NOT_NEEDED
    except Exception:
        _log.exception("The guard failed.")
    finally:
        os._exit(status)


def await_end(pid: int, heartbeat: Path) -> int | None:
    """Wait for the end of a guard, and bring it about if it stands still, as its heartbeat tells.

    Returns:
        The exit status of a child; ``None`` of the parent of this process.
    """
    with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid), "rb") as pidfd:
        # A parent may have ended before, and its number may be another's by now.
        while _is_kin(pid) and not is_readable(pidfd.fileno(), _LOOK_S):
            if stands_still(pid, heartbeat):
                _log.error("Guard %d stands still; ending it.", pid)
                signal.pidfd_send_signal(pidfd.fileno(), signal.SIGKILL)
                is_readable(pidfd.fileno(), _LOOK_S)
    with suppress(ChildProcessError):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None


def _is_kin(pid: int) -> bool:
    if os.getppid() == pid:
        return True
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return False


def _read_all() -> None:
    """Import and read now what is on first use, so that revived guards find it at hand.

    A snapshot of the code that a Ray job ran from may be gone when it is needed.
    """
    for name in DEVICES:
        with suppress(ImportError, AttributeError, ConfigError):  # that of a broken plug-in
            DEVICES[name]
    for key in GPUS:
        with suppress(ConfigError):  # that of a broken board of the user's
            GPUS[key]


def _log_to(path: Path) -> None:
    """Write what is logged, and what Python says at its end, into files of bounded length."""
    handler = RotatingFileHandler(path, maxBytes=_LONGEST_LOG_B, backupCount=1)
    with path.open("a") as last_words:
        for stream in (1, 2):
            os.dup2(last_words.fileno(), stream)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(process)d %(message)s",
        handlers=[handler],
        force=True,
    )


def _name_process(name: str) -> None:
    """Say in ``ps`` and ``top`` what this process is; at most 15 letters."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)


if __name__ == "__main__":
    sys.exit(main())
