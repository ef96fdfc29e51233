"""Follow a counter's ticks as they come, and say when to read it next.

A read of an H200's counter keeps a core busy for 3 ms and more, so every read must tell
something. A tick is timed by one read that ends shortly before it and one that begins shortly
after it. When ticks are due follows from those timed before.
"""

from collections import deque
from statistics import median

from joulelab.sampling.lattice import Bracket, TickLattice

SCAN_STEP_S = 0.016
"""Between reads while the ticks are unknown; halved as often as they prove to be denser."""
FINEST_STEP_S = 0.002
SHORTEST_FOLLOWED_S = 0.04
"""Ticks closer than this are not followed one by one."""
CONTINUOUS_STEP_S = 0.0047
"""Between reads of a counter that changes at every read, or nearly so."""
ENOUGH_TICKS = 3
FRESH_SHARE = 0.4
"""Share of the period to which ticks should always be known."""
_NARROW_S = 0.01
"""A tick known this well is read before and after; one known less is searched by bisection."""
_SMALL_STEP_S = 0.005
_SHARP = 0.3
"""Brackets of two neighbours, relative to their distance, that tell the next tick from the one
after it."""
_GUARD_S = 0.001
_ANCHOR_S = 0.01
"""A read so long before a tick is close enough to bound it."""
_PATIENCE = 1 / 8
"""A counter that has stood still is read less and less often."""
_MAX_MISSES = 3


class TickTracker:
    """What successive reads of one counter have shown of its ticks.

    It may be kept from one measurement to the next of the same device.
    """

    def __init__(self) -> None:
        self.is_continuous = False
        """Whether the counter changes too often to follow its ticks."""
        self.timed_s = -float("inf")
        """When the last tick came that was timed; of a continuous counter, the last change."""
        self._lattice: TickLattice | None = None
        self._is_phase_known = False
        self._last: tuple[float, float] | None = None
        self._repeated = False
        self._previous: Bracket | None = None
        self._changed_s: list[float] = []
        self._moved_s = 0.0
        self._step_s = SCAN_STEP_S
        self._passed = 0
        self._num_timed = 0
        self._num_misses = 0
        self._num_restarts = 0
        self._calls_s: deque[float] = deque([0.0], maxlen=9)
        self._delays_s: deque[float] = deque([0.0], maxlen=9)

    @property
    def period_s(self) -> float | None:
        """Time between ticks; ``None`` until two neighbours were seen."""
        return None if self.bounds_s is None else sum(self.bounds_s) / 2

    @property
    def bounds_s(self) -> tuple[float, float] | None:
        """Between what the time between ticks lies; ``None`` until two neighbours were seen."""
        lattice = self._lattice
        return None if lattice is None else (lattice.shortest_s, lattice.longest_s)

    @property
    def is_settled(self) -> bool:
        """Whether enough ticks were timed to foresee the next ones."""
        return self.is_continuous or self._num_timed >= ENOUGH_TICKS

    @property
    def _call_s(self) -> float:
        return median(self._calls_s)

    def is_fresh(self, at_s: float) -> bool:
        """Whether ticks at ``at_s`` are known well, or there is nothing to know."""
        if self._lattice is None:
            return self.is_continuous
        return self._is_phase_known and self._lattice.foresees(at_s, FRESH_SHARE)

    def num_since(self, at_s: float) -> int:
        """Changes of the counter that came after ``at_s`` for certain, up to eight.

        May be asked from another thread than the one that polls.
        """
        return sum(earliest_s >= at_s for earliest_s in self._changed_s[-8:])

    def add(
        self, before_s: float, after_s: float, energy_j: float, *, delay_s: float = 0.0
    ) -> None:
        """Take in one read, between two instants, begun ``delay_s`` later than planned."""
        last, self._last = self._last, (before_s, energy_j)
        self._calls_s.append(after_s - before_s)
        self._delays_s.append(delay_s)
        if last is None:
            self._moved_s = before_s
        elif energy_j == last[1]:
            self._repeated = True
            if self._pass_ticks(before_s):  # one must have come by now
                self._num_misses += 1
                if self._num_misses >= _MAX_MISSES:
                    self._num_misses, self._is_phase_known = 0, False
        else:
            repeated, self._repeated = self._repeated, False
            self._moved_s = before_s
            self._changed_s.append(last[0])
            self._note_change(Bracket(last[0], after_s), repeated=repeated)
            self._pass_ticks(before_s)

    def next_read_s(self, now_s: float, from_s: float) -> float:
        """When to read next, to time the first tick that reads after ``from_s`` can time."""
        if self._last is None:
            return max(now_s, from_s)
        last_s = self._last[0]
        if self.is_continuous:
            return max(from_s, last_s + CONTINUOUS_STEP_S)
        lattice = self._foreseen(max(now_s, from_s))
        if lattice is None:
            patient_s = _PATIENCE * (last_s - self._moved_s)
            return max(from_s, last_s + max(self._step_s, patient_s))
        return max(last_s + _GUARD_S, self._beside_tick_s(lattice, last_s, now_s, from_s))

    def _beside_tick_s(
        self, lattice: TickLattice, last_s: float, now_s: float, from_s: float
    ) -> float:
        lead_s = self._call_s + median(self._delays_s) + _GUARD_S
        tick = lattice.window(self._passed + 1)
        saw_foregoing = last_s >= lattice.window(self._passed).latest_s
        just_before = last_s >= tick.earliest_s - lead_s - _ANCHOR_S
        if last_s >= from_s and (just_before or saw_foregoing):
            low_s = max(last_s, tick.earliest_s)
            if tick.latest_s - low_s <= _NARROW_S:
                return tick.latest_s + _GUARD_S
            return max(last_s + _SMALL_STEP_S, (low_s + tick.latest_s - self._call_s) / 2)
        earliest_s = max(now_s, from_s)
        number = max(self._passed + 1, lattice.first_after(earliest_s))
        if lattice.window(number).earliest_s - lead_s < earliest_s - _GUARD_S:
            number += 1
        return lattice.window(number).earliest_s - lead_s

    def _note_change(self, bracket: Bracket, *, repeated: bool) -> None:
        if self._lattice is None:
            self._search(bracket, repeated=repeated)
            return
        number = self._lattice.number_of(bracket) if self._is_phase_known else None
        if number is not None:
            self._passed = max(self._passed, number)
            self._learn(self._lattice, number, bracket)
        elif repeated and bracket.width_s <= self._lattice.shortest_s / 2:
            self.timed_s = bracket.latest_s  # counts anew: none was foreseen here
            self._num_misses = 0
            self._lattice.restart(bracket)
            self._passed, self._is_phase_known = 0, True
            self._num_timed = 2
            self._num_restarts += 1
            if self._num_restarts > _MAX_MISSES:
                self._lattice = self._previous = None
                self._num_timed = self._num_restarts = 0
                self._step_s = SCAN_STEP_S

    def _learn(self, lattice: TickLattice, number: int, bracket: Bracket) -> None:
        foreseen = lattice.window(number)
        seen = Bracket(
            max(bracket.earliest_s, foreseen.earliest_s), min(bracket.latest_s, foreseen.latest_s)
        )
        if bracket.width_s <= lattice.shortest_s / 2:
            lattice.learn(number, bracket)
        elif 0 <= seen.width_s < foreseen.width_s:
            lattice.learn(number, seen)
        else:
            return
        self.timed_s = bracket.latest_s
        self._num_timed += 1
        self._num_misses = self._num_restarts = 0

    def _search(self, bracket: Bracket, *, repeated: bool) -> None:
        """Look for two ticks in a row, each seen so sharp that they foretell the next."""
        previous, self._previous = self._previous, bracket
        self.timed_s = bracket.latest_s
        if previous is None:
            return
        sharp_s = _SHARP * (bracket.middle_s - previous.middle_s)
        if not repeated or self._step_s + self._call_s > sharp_s:
            self._step_s /= 2
            self.is_continuous = self._step_s < FINEST_STEP_S
        elif max(bracket.width_s, previous.width_s) <= sharp_s:
            if sharp_s < _SHARP * SHORTEST_FOLLOWED_S:
                self.is_continuous = True
                return
            self._lattice = TickLattice(previous, bracket)
            self._is_phase_known = True
            self._passed, self._num_timed = 1, 2

    def _pass_ticks(self, before_s: float) -> bool:
        """Count the ticks that came before a read began; whether there are new ones."""
        lattice = self._foreseen(before_s)
        if lattice is None:
            return False
        before = self._passed
        self._passed = max(before, lattice.first_after(before_s) - 1)
        return self._passed > before

    def _foreseen(self, at_s: float) -> TickLattice | None:
        """The lattice, if ticks at ``at_s`` can be foreseen by it."""
        if self._lattice is None or not self._is_phase_known:
            return None
        return self._lattice if self._lattice.foresees(at_s) else None
