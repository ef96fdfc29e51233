"""Whether this process may change a GPU's settings, found out without changing any.

NVIDIA's kernel module lets a process set clocks and power limits if it holds CAP_SYS_ADMIN in
the machine's initial user namespace: root on the host, not root inside an unprivileged
container. The kernel says both in ``/proc``; trying a setter to see would change the GPU.
"""

from pathlib import Path

CAP_SYS_ADMIN = 21

_INITIAL_NAMESPACE = ["0", "0", "4294967295"]


def may_administer(status: str, uid_map: str) -> bool | None:
    """Judge from the kernel's account of a process whether the driver will obey it.

    Args:
        status: Text of ``/proc/<pid>/status``.
        uid_map: Text of ``/proc/<pid>/uid_map``.

    Returns:
        ``None`` where only a try would tell: the capability is there, but within a user
        namespace that the driver may not honour.
    """
    effective = next(
        (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")),
        None,
    )
    if effective is None:
        return None
    if not effective >> CAP_SYS_ADMIN & 1:
        return False
    return True if uid_map.split() == _INITIAL_NAMESPACE else None


def this_process_may_administer() -> bool | None:
    """Judge it for this process; ``None`` where there is no ``/proc`` to ask."""
    own = Path("/proc/self")
    try:
        return may_administer((own / "status").read_text(), (own / "uid_map").read_text())
    except OSError:
        return None
