"""Who else is on the GPU: a limit for one program cannot be kept for two."""

from joulelab.devices.base import Device
from joulelab.monitor.sensors import OwnProcesses

LOOK_S = 2.0


class Tenants:
    """Looks for processes that are not those that are governed.

    Args:
        device: The GPU.
        own: Which processes are governed; ``None`` for those that are there at the first look
            that finds any.
    """

    def __init__(self, device: Device, own: OwnProcesses | None = None) -> None:
        self._device = device
        self._own = own
        self._first: frozenset[int] = frozenset()
        self._looked_s = -float("inf")
        self.foreign: frozenset[int] = frozenset()
        """Ids of those seen at the last look."""

    def look(self, now_s: float) -> bool:
        """Look again if that is due; return whether somebody new is there."""
        if now_s - self._looked_s < LOOK_S:
            return False
        self._looked_s, before = now_s, self.foreign
        pids = frozenset(process.pid for process in self._device.read_processes())
        self._first = self._first or pids
        own = self._first if self._own is None else self._own.pids(self._device)
        self.foreign = pids - own
        return bool(self.foreign - before)
