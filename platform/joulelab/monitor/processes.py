"""Which processes on a GPU are this program's."""

import os
from collections.abc import Callable, Iterable

from joulelab.devices.base import Device

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""``PROC_PID_INIT_INO`` of the Linux kernel (include/linux/proc_ns.h)."""


class OwnProcesses:
    """This process and its descendants; in a container, whatever came after the watching began.

    Inside a container the driver's process ids are the host's, which cannot be compared with ours;
    those that are new since the watching began are then taken to be this program's.

    Args:
        family: Returns the process ids of this program.
    """

    def __init__(self, family: Callable[[], Iterable[int]] | None = None) -> None:
        self._family = family or _descendants
        self._first: dict[str, frozenset[int]] = {}
        self._family_seen: dict[str, set[int]] = {}

    def begin(self, device: Device) -> None:
        """Note who is on the GPU before anything of this program's is watched."""
        self._first[device.identity().uuid] = _pids(device)

    def pids(self, device: Device) -> frozenset[int]:
        """Return the ids that are not foreign to this program."""
        uuid, now = device.identity().uuid, _pids(device)
        own = self._family_seen.setdefault(uuid, set())
        own.update(self._family())
        if not now & own and not _sees_host_ids():
            return frozenset(own) | (now - self._first.get(uuid, frozenset()))
        return frozenset(own)


def _sees_host_ids() -> bool:
    """Whether this process is in the machine's initial namespace of process ids."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _pids(device: Device) -> frozenset[int]:
    return frozenset(process.pid for process in device.read_processes())


def _descendants() -> Iterable[int]:
    import psutil

    me = psutil.Process(os.getpid())
    return [me.pid, *(child.pid for child in me.children(recursive=True))]
