"""How a daemon is started, from a client or from a guard."""

import os
import sys
from pathlib import Path

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
