"""Where the ticks of a periodic counter can lie, from brackets around those that were timed."""

from math import ceil, floor, inf
from typing import NamedTuple

_NUM_KEPT = 8
_STALE = 0.9
"""Ticks known no better than to this share of their period are not known at all."""


class Bracket(NamedTuple):
    """A time span in which the counter changed once."""

    earliest_s: float
    latest_s: float

    @property
    def width_s(self) -> float:
        """Length of the span."""
        return self.latest_s - self.earliest_s

    @property
    def middle_s(self) -> float:
        """Middle of the span."""
        return (self.earliest_s + self.latest_s) / 2


class TickLattice:
    """Numbered ticks and the bounds that they put on period and phase."""

    def __init__(self, first: Bracket, second: Bracket) -> None:
        self.shortest_s = max(1e-3, second.earliest_s - first.latest_s)
        """Lower bound of the period."""
        self.longest_s = second.latest_s - first.earliest_s
        """Upper bound of the period."""
        self._known = [(0, first), (1, second)]

    def window(self, number: int) -> Bracket:
        """Span in which a tick must lie by all that were timed."""
        lo_s, hi_s = -inf, inf
        for known, (earliest_s, latest_s) in self._known:
            steps = number - known
            least_s, most_s = steps * self.shortest_s, steps * self.longest_s
            if steps < 0:
                least_s, most_s = most_s, least_s
            lo_s = max(lo_s, earliest_s + least_s)
            hi_s = min(hi_s, latest_s + most_s)
        return Bracket(min(lo_s, hi_s), max(lo_s, hi_s))

    def first_after(self, at_s: float) -> int:
        """Number of the first tick that may come after ``at_s``."""
        known, bracket = self._known[-1]
        number = known + floor((at_s - bracket.latest_s) / self.longest_s) - 1
        while self.window(number).latest_s <= at_s:
            number += 1
        return number

    def number_of(self, bracket: Bracket) -> int | None:
        """Number of the only tick that can lie in a bracket; ``None`` if none or several can."""
        least, most = [], []
        for known, other in self._known:
            from_s = bracket.earliest_s - other.latest_s
            until_s = bracket.latest_s - other.earliest_s
            least.append(known + ceil(from_s / (self.longest_s if from_s > 0 else self.shortest_s)))
            most.append(
                known + floor(until_s / (self.shortest_s if until_s > 0 else self.longest_s))
            )
        return max(least) if max(least) == min(most) else None

    def learn(self, number: int, bracket: Bracket) -> None:
        """Take in the bracket of tick ``number``."""
        shortest_s, longest_s = self.shortest_s, self.longest_s
        for known, other in self._known:
            if (steps := number - known) > 0:
                shortest_s = max(shortest_s, (bracket.earliest_s - other.latest_s) / steps)
                longest_s = min(longest_s, (bracket.latest_s - other.earliest_s) / steps)
        self.shortest_s, self.longest_s = min(shortest_s, longest_s), max(shortest_s, longest_s)
        self._known.append((number, bracket))
        if len(self._known) > _NUM_KEPT:
            del self._known[1]  # the first makes the longest baseline

    def restart(self, bracket: Bracket) -> None:
        """Keep the period, and count anew from a tick that came when none was foreseen."""
        self._known = [(0, bracket)]

    def foresees(self, at_s: float, share: float = _STALE) -> bool:
        """Whether ticks at ``at_s`` are known to ``share`` of the period."""
        last = self.window(self._known[-1][0])
        num_steps = 1 + floor(max(0.0, at_s - last.latest_s) / self.shortest_s)
        width_s = last.width_s + num_steps * (self.longest_s - self.shortest_s)
        return width_s <= share * self.shortest_s
