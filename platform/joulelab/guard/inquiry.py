"""What clock guards answer of themselves: who has clocks on loan, and whether they outlive a job.

One that ends with the SLURM job that borrows from it leaves clocks set.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.devices.choice import with_store
from joulelab.errors import GuardError, JouleLabError
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import GuardStatus
from joulelab.guard.settings import default_socket_path
from joulelab.guard.start import may_start, nobody_listens

_PATIENCE_S = 2.0
_ANSWER_S = 5.0  # of a guard that is about to be used


def holders(addresses: Sequence[DeviceAddress], guard_socket: Path | None = None) -> dict[str, str]:
    """Return who holds devices, by UUID, as others are to read it; starts no guard.

    What this process holds itself is left out, and so is what no guard answers for.

    Args:
        addresses: Devices of this machine.
        guard_socket: Where the clock guard listens; ``None`` for the usual place.
    """
    asked = {with_store(address) for address in addresses}
    sockets = {guard_socket or default_socket_path(address) for address in asked}
    return {
        lease.address.uuid: f"{lease.note or 'a process'} (pid {lease.pid})"
        for status in map(_status, sockets)
        if status is not None
        for lease in status.leases
        if lease.address in asked and lease.pid != os.getpid()
    }


def _status(socket_path: Path) -> GuardStatus | None:
    try:
        return GuardClient(socket_path, start=False).status(timeout_s=_PATIENCE_S)
    except JouleLabError:
        return None


HOW_TO_OUTLIVE = (
    "SLURM may kill it with the job, and clocks stay set: have the site run "
    "joulelab-guard.service, or cluster/epilog_restore_clocks.sh."
)

_PROC = Path("/proc")


def pid_of_guard(socket_path: Path, timeout_s: float) -> int | None:
    """Return the process of a guard; ``None`` if none is there, and one starts when it is needed.

    Raises GuardError if one listens that does not answer, or none does and only root may start it.
    """
    if nobody_listens(socket_path) and may_start(socket_path):
        return None
    return GuardClient(socket_path, start=False).status(timeout_s=timeout_s).pid


def guard_outlives_job(socket_path: Path) -> bool:
    """Whether nothing is known by which the guard at ``socket_path`` would end with this job."""
    if "SLURM_JOB_ID" not in os.environ:
        return True
    with suppress(GuardError):  # whoever borrows from it gets the error
        return outlives_job(pid_of_guard(socket_path, _ANSWER_S), socket_path) is not False
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
