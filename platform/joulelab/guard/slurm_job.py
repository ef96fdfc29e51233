"""Whether a clock guard ends with the SLURM job that borrows from it, which leaves clocks set."""

import os
import re
from contextlib import suppress
from pathlib import Path

from joulelab.errors import GuardError
from joulelab.guard.client import GuardClient
from joulelab.guard.start import may_start, nobody_listens

HOW_TO_OUTLIVE = (
    "SLURM may kill it with the job, and clocks stay set: have the site run "
    "joulelab-guard.service, or cluster/epilog_restore_clocks.sh."
)

_PROC = Path("/proc")


def pid_of_guard(socket_path: Path, timeout_s: float) -> int | None:
    """Return the process of a guard; ``None`` if none is there, and one starts when it is needed.

    Raises:
        GuardError: If one listens that does not answer, or none does and only root may start it.
    """
    if nobody_listens(socket_path) and may_start(socket_path):
        return None
    return GuardClient(socket_path, start=False).status(timeout_s=timeout_s).pid


def guard_outlives_job(socket_path: Path, timeout_s: float = 5.0) -> bool:
    """Whether nothing is known by which the guard at ``socket_path`` would end with this job."""
    if "SLURM_JOB_ID" not in os.environ:
        return True
    with suppress(GuardError):  # whoever borrows from it is told
        return outlives_job(pid_of_guard(socket_path, timeout_s), socket_path) is not False
    return True


def outlives_job(pid: int | None, socket_path: Path) -> bool | None:
    """Whether the guard goes on when SLURM kills this job with all of its processes.

    Args:
        pid: Its process; ``None`` for one that this process would start.
        socket_path: Where it listens.

    Returns:
        ``None`` outside of a job.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    who = "self" if pid is None else str(pid)
    with suppress(OSError):
        return re.search(rf"\bjob_{job}\b", (_PROC / who / "cgroup").read_text()) is None
    # Where /proc hides other users' processes, root's guard is one of those.
    with suppress(OSError):
        return socket_path.stat().st_uid != os.getuid()
    return False
