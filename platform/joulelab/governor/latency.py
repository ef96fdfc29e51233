"""Latencies that a program reports, and how much slower they let a load become."""

from collections import deque
from math import inf
from threading import Lock

import numpy as np

HORIZON_S = 30.0
"""Latencies of so long ago say nothing of now."""
_KEPT = 0.95
"""Share of the latencies that must be within the limit, and how near to it they are brought."""

_AGAIN_S = 0.5
"""So often they are sorted anew: a program may report thousands a second."""


class Latencies:
    """Latencies of the last half minute against their limit, in seconds; any thread may add some.

    They are taken to grow as the load slows down. Where requests queue they grow faster, which
    shows in those that follow, and takes the room back.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._recent: deque[tuple[float, float]] = deque()
        self._num = self._num_above = 0
        self._reached: tuple[float, float | None] = -inf, None
        self._turn = Lock()

    def add(self, latency_s: float, now_s: float) -> None:
        """Take in a latency that was seen at ``now_s``."""
        with self._turn:
            self._recent.append((now_s, latency_s))
            self._num += 1
            self._num_above += latency_s > self._limit_s

    def room(self, now_s: float, slowdown: float) -> float:
        """Return by how much the load may be slower than at the driver's own clocks.

        ``slowdown`` is by how much it is now. Without latencies there is no room.
        """
        if self._reached[1] is None or now_s - self._reached[0] >= _AGAIN_S:
            self._reached = now_s, self._reached_s(now_s)
        reached_s = self._reached[1]
        if reached_s is None:
            return 0.0
        if not reached_s > 0:
            return inf
        return max(0.0, _KEPT * self._limit_s * (1.0 + slowdown) / reached_s - 1.0)

    def _reached_s(self, now_s: float) -> float | None:
        """Return what 95 % of the recent latencies do not exceed; ``None`` without any."""
        with self._turn:
            while self._recent and self._recent[0][0] < now_s - HORIZON_S:
                self._recent.popleft()
            latencies_s = [latency_s for _, latency_s in self._recent]
        return float(np.quantile(latencies_s, _KEPT)) if latencies_s else None

    @property
    def words(self) -> str:
        """How the limit was kept, in a sentence."""
        if not self._num:
            return (
                "No latency was reported, so that no work was slowed down: a program reports them "
                "by governor.latency(), a server's are read with --progress-url."
            )
        return (
            f"{self._num_above} of {self._num} reported latencies were above the limit of "
            f"{self._limit_s:g} s."
        )
