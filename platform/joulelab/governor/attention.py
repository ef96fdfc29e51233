"""How often a governor may look, whether the load is steady, and whether its clock is held."""

from collections import deque
from statistics import fmean

from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
from joulelab.governor.observing import Observation

JUDGED_S, SLOWEST_S = 20.0, 1.0
"""Over how long the cost is judged, and the longest time between looks. A phase that is new costs a
tenth of a second of a core once, which is no reason to look less often from then on."""
_ROOM = 0.8
"""Share of the budget within which looks must stay to be more frequent, or whole, again."""


class Looking:
    """Keeps the cost of looking every ``period_s`` within its budget, a share of one core.

    Looks become brief, where they ``may_be_brief``, before they become rare.
    """

    def __init__(
        self, period_s: float, budget: float, now_s: float, *, may_be_brief: bool = False
    ) -> None:
        self.period_s = period_s
        self.may_be_brief = may_be_brief
        """Whether a look can be cheaper than others."""
        self.are_brief = self.were_brief = False
        self.note = ""
        """Why looks are less often than when that was last said; empty if they are not."""
        self._least_s = self._noted_s = period_s
        self._budget = budget
        self._since_s = now_s
        self._brief_s, self._whole_s = list[float](), list[float]()
        self._is_new = True

    def bill(self, cpu_s: float, now_s: float, *, is_brief: bool = False) -> bool:
        """Take note of what a look cost; return whether the period is another from now on."""
        (self._brief_s if is_brief else self._whole_s).append(cpu_s)
        passed_s = now_s - self._since_s
        if passed_s < JUDGED_S:
            return False
        share = (sum(self._brief_s) + sum(self._whole_s)) / passed_s
        whole_share = fmean(self._whole_s or [share * self._least_s]) / self._least_s
        is_new, before_s = self._is_new, self.period_s
        self._since_s, self._is_new = now_s, False
        self._brief_s, self._whole_s = [], []
        if not is_new:  # first calls cost more than all later ones
            self._judge(share, whole_share)
        return self.period_s != before_s

    def _judge(self, share: float, whole_share: float) -> None:
        """Choose by the share that looks take, and that they would if all were whole again."""
        room = _ROOM * self._budget
        if share > self._budget and self.may_be_brief and not self.are_brief:
            self.are_brief = self.were_brief = True
        elif share > self._budget:
            self.period_s = min(self.period_s * min(share / self._budget, 2.0), SLOWEST_S)
        elif self.period_s > self._least_s and share < room:
            self.period_s = max(self.period_s * share / room, self._least_s)
        elif self.period_s == self._least_s and whole_share < room:
            self.are_brief = False
        self.note = ""
        if self.period_s >= 2 * self._noted_s:
            self._noted_s = self.period_s
            self.note = (
                f"Looking took {100 * share:.1f} % of a core, so that looks are taken every "
                f"{self.period_s:.2g} s, and a phase is recognised that much later."
            )


HORIZON_S, UNKNOWN_SHARE = 30.0, 0.5
_LONG_ENOUGH = 0.8


class Steadiness:
    """Remembers which of the last windows belong to a phase."""

    def __init__(self) -> None:
        self._windows: deque[tuple[Observation, bool]] = deque()
        self._all_s = self._unknown_s = 0.0

    def add(self, seen: Observation, *, is_known: bool) -> None:
        """Take note of a window."""
        self._windows.append((seen, is_known))
        self._count(1.0, seen, is_known)
        while self._windows[0][0].stop_s < seen.stop_s - HORIZON_S:
            self._count(-1.0, *self._windows.popleft())

    @property
    def is_unsteady(self) -> bool:
        """Whether most of the last half minute belongs to no phase."""
        is_long_enough = self._all_s >= _LONG_ENOUGH * HORIZON_S
        return is_long_enough and self._unknown_s > UNKNOWN_SHARE * self._all_s

    def _count(self, sign: float, seen: Observation, is_known: bool) -> None:
        self._all_s += sign * seen.duration_s
        self._unknown_s += sign * (not is_known) * seen.duration_s


NOT_HELD_S = 2.0
"""A clock above the one that was set, for so long, is one that is not held."""


class HeldClock:
    """Watches whether the clock that was set is held."""

    def __init__(self) -> None:
        self._above_s = 0.0

    def watch(self, seen: Observation, wanted_mhz: int | None) -> str:
        """Return why it must be taken for one that is not; empty if it need not yet."""
        least_mhz = seen.least_clock_mhz
        is_above = wanted_mhz is not None and least_mhz > wanted_mhz + CLOCK_TOLERANCE_MHZ
        self._above_s = self._above_s + seen.duration_s if is_above else 0.0
        if self._above_s <= NOT_HELD_S:
            return ""
        return (
            f"the SM clock was to be held at {wanted_mhz} MHz and is at {least_mhz:.0f} MHz; "
            "something else sets it, or the driver does not obey."
        )
