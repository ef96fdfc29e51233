"""How much a search may spend."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from joulelab.analysis.quantities import counted
from joulelab.core.bounds import DAY_S, MOST_TRIALS, check_positive
from joulelab.searching.evidence import DEFAULT_HORIZON_S

MOST_WALL_S = 366 * DAY_S
MOST_ENERGY_J = 1e12
MOST_HORIZON_H = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds from which on no further trial is begun, all finite; ``None`` for no bound.

    And what a further one is worth.

    Attributes:
        num_trials: Trials of the search, those of earlier runs included.
        wall_s: Seconds of this run.
        energy_j: Joules spent on trials, those of earlier runs included.
        horizon_h: Hours for which what is found will run on one GPU: nothing more is tried whose
            expected gain over them is less than what points have taken, in joules or in seconds.
            By default a day, which points of seconds are always worth.
    """

    num_trials: int | None = None
    wall_s: float | None = None
    energy_j: float | None = None
    horizon_h: float = DEFAULT_HORIZON_S / 3600

    def __post_init__(self) -> None:
        check_positive("num_trials", self.num_trials, MOST_TRIALS)
        check_positive("wall_s", self.wall_s, MOST_WALL_S)
        check_positive("energy_j", self.energy_j, MOST_ENERGY_J)
        check_positive("horizon_h", self.horizon_h, MOST_HORIZON_H)

    @property
    def words(self) -> str:
        """The bounds, ``"60 trials or 3600 s"``; ``""`` for none."""
        num, wall_s, energy_j = self.num_trials, self.wall_s, self.energy_j
        bounds = (
            None if num is None else counted(num, "trial"),
            None if wall_s is None else f"{wall_s:g} s",
            None if energy_j is None else f"{energy_j:g} J",
        )
        return " or ".join(filter(None, bounds))


class Account:
    """What a search has spent of its budget; ``now_s`` is the clock of the wall.

    Trials that are out count as begun, and with the mean energy of those that ended: what that
    leaves no room for waits until they have ended, as they may take less. A GPU has one trial under
    way and one waiting: one that is taken begins about half as long after that as others took from
    there to their end.
    """

    def __init__(self, budget: Budget, now_s: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self.energy_j = 0.0
        self.num_begun = 0
        self._num_ended = self._num_ended_before = 0
        self._now_s = now_s
        self._start_s = self._last_s = now_s()
        self._out_s = 0.0

    def start(self) -> None:
        """Take what was noted so far for that of earlier runs; this one begins now."""
        self._num_ended_before = self._num_ended
        self._start_s = self._last_s = self._now_s()
        self._out_s = 0.0

    def begin(self) -> None:
        """Note that a trial is out."""
        self._let_pass()
        self.num_begun += 1

    def end(self) -> None:
        """Note that a trial needs no further try."""
        self._let_pass()
        self._num_ended += 1

    @property
    def num_out(self) -> int:
        """Trials that were begun and have not ended."""
        return self.num_begun - self._num_ended

    @property
    def most_out(self) -> float:
        """How many trials the energy that is left lets be out at once; 1 until one has ended."""
        if self.budget.energy_j is None:
            return inf
        if not self._num_ended or not self.energy_j:
            return inf if self._num_ended else 1
        return (self.budget.energy_j - self.energy_j) // (self.energy_j / self._num_ended)

    def spend(self, energy_j: float) -> None:
        """Note what an attempt took."""
        self.energy_j += energy_j

    @property
    def exhausted(self) -> str | None:
        """Which bound another trial would break, in words; ``None`` if none."""
        budget = self.budget
        if budget.num_trials is not None and self.num_begun >= budget.num_trials:
            return counted(budget.num_trials, "trial")
        if budget.wall_s is not None and self._next_start_s() >= budget.wall_s:
            return f"{budget.wall_s:g} s"
        if self._num_ended and self.most_out < 1:
            return f"{budget.energy_j:g} J"
        return None

    def _next_start_s(self) -> float:
        """Return when a trial that is taken now is expected to begin, since the start."""
        self._let_pass()
        num_ended = self._num_ended - self._num_ended_before
        out_s = self._out_s / num_ended if num_ended else 0.0
        return self._last_s - self._start_s + out_s / 2

    def _let_pass(self) -> None:
        """Add up for how long trials were out."""
        now_s = self._now_s()
        self._out_s += self.num_out * (now_s - self._last_s)
        self._last_s = now_s
