"""Noticing, at the price of one ``stat``, that somebody changed the driver's state."""

import os
import time

from joulelab.devices.simulated.store import DriverState, Settings

_STAMP = 777_777
_RECENT_NS = 50_000_000
"""Longer than any kernel's granularity of file times."""


class StoreWatch:
    """The settings in a driver's state, re-read when they change.

    Every change renames or unlinks a file, which moves the folder's modification time. That
    time is coarse: two changes may share it. So a folder that changed a moment ago is first
    stamped with a time that no kernel would give it, then read; whatever comes later shows.

    Args:
        state: What to watch.
    """

    def __init__(self, state: DriverState) -> None:
        self._state = state
        self._folder = str(state.folder)  # a path object costs more than the call
        self._seen_ns = 0
        self.settings = Settings()
        self.changed()

    def changed(self) -> bool:
        """Read the settings if the folder changed; return whether they differ."""
        modified_ns = os.stat(self._folder).st_mtime_ns
        if modified_ns == self._seen_ns:
            return False
        self._seen_ns = self._stamped(modified_ns)
        before, self.settings = self.settings, self._state.settings()
        return self.settings != before

    def _stamped(self, modified_ns: int) -> int:
        now_ns = time.time_ns()
        if now_ns - modified_ns > _RECENT_NS or modified_ns % 1_000_000 == _STAMP:
            return modified_ns
        stamp_ns = now_ns - now_ns % 1_000_000 + _STAMP
        try:
            os.utime(self._state.folder, ns=(stamp_ns, stamp_ns))
        except PermissionError:
            return 0  # somebody else's folder: read it every time while it is fresh
        return stamp_ns
