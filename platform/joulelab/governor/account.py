"""What a governed load lost within the last minute, and where."""

from collections import defaultdict, deque

from joulelab.governor.observing import Observation


class Account:
    """Sums up the last minute."""

    def __init__(self, horizon_s: float = 60.0) -> None:
        self._horizon_s = horizon_s
        self._entries: deque[tuple[Observation, float, int | None]] = deque()
        self._duration_s = self._energy_j = 0.0
        self._work_s: dict[int | None, float] = defaultdict(float)
        self._lost_s: dict[int | None, float] = defaultdict(float)

    def add(self, seen: Observation, work_s: float, phase: int | None) -> None:
        """Take in a window, whose work would have taken ``work_s`` at the driver's own point.

        Those that are too old are dropped. ``phase`` is the number of the one whose point was in
        force, ``None`` in a transition: the point in force was not the one chosen for what ran.
        """
        self._entries.append((seen, work_s, phase))
        self._count(1.0, seen, work_s, phase)
        while self._entries[0][0].stop_s < seen.stop_s - self._horizon_s:
            self._count(-1.0, *self._entries.popleft())

    @property
    def slowdown(self) -> float:
        """Time over what it would have been, less 1; 0 while nothing is known."""
        work_s = sum(self._work_s.values())
        return max(0.0, self._duration_s / work_s - 1.0) if work_s > 0 else 0.0

    def beside(self, phase: int) -> tuple[float, float]:
        """Return the share of the work that a phase is, and the slowdown by all but its point.

        Until the account holds enough, all of the work is taken to be of the phase.
        """
        work_s = sum(self._work_s.values())
        if not (self.is_long_enough and work_s > 0):
            return 1.0, 0.0
        lost_s = sum(self._lost_s.values()) - self._lost_s[phase]
        return self._work_s[phase] / work_s, max(0.0, lost_s / work_s)

    @property
    def power_w(self) -> float | None:
        """Mean power; ``None`` while nothing is known."""
        return self._energy_j / self._duration_s if self._duration_s > 0 else None

    @property
    def is_long_enough(self) -> bool:
        """Whether it holds enough to be judged by."""
        return self._duration_s > self._horizon_s / 4

    def _count(self, sign: float, seen: Observation, work_s: float, phase: int | None) -> None:
        self._duration_s += sign * seen.duration_s
        self._energy_j += sign * seen.energy_j
        self._work_s[phase] += sign * work_s
        self._lost_s[phase] += sign * (seen.duration_s - work_s)
