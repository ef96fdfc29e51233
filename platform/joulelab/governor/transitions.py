"""Which phase follows which, and how much time is lost where the next one begins at a low clock."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from joulelab.governor.outlook import Curves, merged_time
from joulelab.governor.phase import Phase
from joulelab.governor.strategy import Array

REACTION_S = 0.2
"""From the begin of a phase until its clock is in force: a window that is mixed, one that is not,
the setter's call, and the clock's own latency."""
ANTICIPATED_S = 0.1
"""The same where the phase was expected, so that a window that is mixed suffices."""
_FEWEST_ENDS, _NEARLY_ALWAYS = 4, 0.8
_UNSEEN = 0.5
"""An end of a phase that was not seen to end counts as half of one, with the worst to follow."""


class Transitions:
    """Counts ends of phases.

    Of what was never seen to end, half an end is assumed for all the time that it was seen: so
    waiting at a low clock begins once the load is known.
    """

    def __init__(self) -> None:
        self._followed: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._before: Phase | None = None

    def note(self, phase: Phase) -> None:
        """Take note of what runs now."""
        if self._before is not None and self._before is not phase:
            self._followed[self._before.number][phase.number] += 1
        self._before = phase

    def next_number(self) -> int | None:
        """Return the number of the phase that nearly always follows the present one, if any."""
        return None if self._before is None else self._follower(self._before.number)

    def wake_s(self, phase: Phase, curves: Curves, known: Mapping[int, Curves | None]) -> Array:
        """Return seconds that are lost per second of ``phase``, at each of its points.

        Args:
            phase: What runs.
            curves: What is expected of it.
            known: What is expected of all phases, by their numbers.
        """
        clocks_mhz = curves.sm_clock_mhz
        lost = _UNSEEN * REACTION_S * _lost_share(clocks_mhz[0] / clocks_mhz)
        anticipated = self._follower(phase.number)
        for number, count in self._followed[phase.number].items():
            if number in known:
                reaction_s = ANTICIPATED_S if number == anticipated else REACTION_S
                lost += count * reaction_s * _lost_share(merged_time(known[number], clocks_mhz))
        return np.asarray(lost / max(phase.duration_s, REACTION_S))

    def _follower(self, of_number: int) -> int | None:
        followed = self._followed[of_number]
        total = sum(followed.values())
        number = max(followed, key=lambda each: followed[each], default=None)
        if number is None or total < _FEWEST_ENDS or followed[number] < _NEARLY_ALWAYS * total:
            return None
        return number


def _lost_share(time: Array) -> Array:
    """Return which share of the time is lost where work takes ``time`` times as long."""
    return np.asarray(1.0 - 1.0 / np.maximum(time, 1.0))
