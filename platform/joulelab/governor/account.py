"""How much slower the program was than it would have been, over the last minute."""

from collections import deque
from dataclasses import dataclass

from joulelab.governor.observing import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A stretch of time.

    Attributes:
        stop_s: When it ended.
        duration_s: How long it was.
        work_s: Time that its work would have taken at the driver's own point.
        is_transition: Whether the point in force was not the one chosen for what ran.
        energy_j: What it took.
    """

    stop_s: float
    duration_s: float
    work_s: float
    is_transition: bool
    energy_j: float


class Account:
    """Sums up the last minute.

    Args:
        horizon_s: How far back it goes.
    """

    def __init__(self, horizon_s: float = 60.0) -> None:
        self._horizon_s = horizon_s
        self._entries: deque[Entry] = deque()
        self._duration_s = self._work_s = self._energy_j = self._lost_waking_s = 0.0

    def add(self, seen: Observation, work_s: float, *, is_transition: bool) -> None:
        """Take in a window; those that are too old are dropped.

        Args:
            seen: The window.
            work_s: Time that its work would have taken at the driver's own point.
            is_transition: Whether the point in force was not the one chosen for what ran.
        """
        entry = Entry(
            stop_s=seen.stop_s,
            duration_s=seen.duration_s,
            work_s=work_s,
            is_transition=is_transition,
            energy_j=seen.energy_j,
        )
        self._entries.append(entry)
        self._count(entry, 1.0)
        while self._entries[0].stop_s < entry.stop_s - self._horizon_s:
            self._count(self._entries.popleft(), -1.0)

    @property
    def slowdown(self) -> float:
        """Time over what it would have been, less 1; 0 while nothing is known."""
        return max(0.0, self._duration_s / self._work_s - 1.0) if self._work_s > 0 else 0.0

    @property
    def waking(self) -> float:
        """The part of the slowdown that comes of clocks that were not those of what ran."""
        return max(0.0, self._lost_waking_s / self._work_s) if self._work_s > 0 else 0.0

    @property
    def power_w(self) -> float | None:
        """Mean power; ``None`` while nothing is known."""
        return self._energy_j / self._duration_s if self._duration_s > 0 else None

    @property
    def is_long_enough(self) -> bool:
        """Whether it holds enough to be judged by."""
        return self._duration_s > self._horizon_s / 4

    def _count(self, entry: Entry, sign: float) -> None:
        self._duration_s += sign * entry.duration_s
        self._work_s += sign * entry.work_s
        self._energy_j += sign * entry.energy_j
        if entry.is_transition:
            self._lost_waking_s += sign * (entry.duration_s - entry.work_s)
