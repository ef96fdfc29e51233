"""Whether a load has phases at all that can be recognised."""

from collections import deque

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
