"""How much slower the program was than it would have been, over the last minute."""

from collections import deque

from joulelab.governor.observing import Observation


class Account:
    """Sums up the last minute."""

    def __init__(self, horizon_s: float = 60.0) -> None:
        self._horizon_s = horizon_s
        self._entries: deque[tuple[Observation, float, bool]] = deque()
        self._duration_s = self._work_s = self._energy_j = self._lost_waking_s = 0.0

    def add(self, seen: Observation, work_s: float, *, is_transition: bool) -> None:
        """Take in a window, whose work would have taken ``work_s`` at the driver's own point.

        Those that are too old are dropped. In a transition the point in force was not the one
        chosen for what ran.
        """
        self._entries.append((seen, work_s, is_transition))
        self._count(1.0, seen, work_s, is_transition)
        while self._entries[0][0].stop_s < seen.stop_s - self._horizon_s:
            self._count(-1.0, *self._entries.popleft())

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

    def _count(self, sign: float, seen: Observation, work_s: float, is_transition: bool) -> None:
        self._duration_s += sign * seen.duration_s
        self._work_s += sign * work_s
        self._energy_j += sign * seen.energy_j
        if is_transition:
            self._lost_waking_s += sign * (seen.duration_s - work_s)
