"""What a governor watches of itself and others: its cost, unsteady loads, other programs."""

from collections import deque

from joulelab.devices.base import Device
from joulelab.monitor.sensors import OwnProcesses

JUDGED_S, SLOWEST_S = 20.0, 1.0
"""Over how long the cost is judged, and the longest time between looks. A phase that is new costs a
tenth of a second of a core once, which is no reason to look less often from then on."""
_ROOM = 0.8
"""Share of the budget within which looks twice as frequent must stay to be taken again."""


class Looking:
    """Keeps the cost of looking every ``period_s`` within its budget, a share of one core."""

    def __init__(self, period_s: float, budget: float, now_s: float) -> None:
        self.period_s = period_s
        self.note = ""
        """Why looks are taken less often than asked for; empty if they are not."""
        self._least_s = period_s
        self._budget = budget
        self._since_s = now_s
        self._cpu_s = 0.0
        self._is_new = True

    def bill(self, cpu_s: float, now_s: float) -> bool:
        """Take note of what a look cost; return whether the period is another from now on."""
        self._cpu_s += cpu_s
        passed_s = now_s - self._since_s
        if passed_s < JUDGED_S:
            return False
        share, is_new = self._cpu_s / passed_s, self._is_new
        self._cpu_s, self._since_s, self._is_new = 0.0, now_s, False
        if is_new:  # first calls cost more than all later ones
            return False
        if share > self._budget and 2 * self.period_s <= SLOWEST_S:
            self.period_s *= 2
            self.note = (
                f"Looking took {100 * share:.1f} % of a core, so that looks are taken every "
                f"{self.period_s:g} s, and a phase is recognised that much later."
            )
            return True
        if self.period_s > self._least_s and 2 * share <= _ROOM * self._budget:
            self.period_s, self.note = self.period_s / 2, ""
            return True
        return False


HORIZON_S, UNKNOWN_SHARE = 30.0, 0.5
_LONG_ENOUGH = 0.8


class Steadiness:
    """Remembers which of the last looks belong to a phase."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, bool]] = deque()

    def add(self, at_s: float, *, is_known: bool) -> None:
        """Take note of a look."""
        self._looks.append((at_s, is_known))
        while self._looks[0][0] < at_s - HORIZON_S:
            self._looks.popleft()

    @property
    def is_unsteady(self) -> bool:
        """Whether most of the last half minute belongs to no phase."""
        if not self._looks or self._looks[-1][0] - self._looks[0][0] < _LONG_ENOUGH * HORIZON_S:
            return False
        return sum(not known for _, known in self._looks) > UNKNOWN_SHARE * len(self._looks)


LOOK_S = 2.0


class Tenants:
    """Looks for processes that are not those that are governed.

    These are ``own``, by default those that are there at the first look that finds any.
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
