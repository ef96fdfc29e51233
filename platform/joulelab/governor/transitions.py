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

    def wake_s(self, phase: Phase, curves: Curves, known: Mapping[int, Curves | None]) -> Array:
        """Return seconds that are lost per second of ``phase``, at each of its points.

        Args:
            phase: What runs.
            curves: What is expected of it.
            known: What is expected of all phases, by their numbers.
        """
        clocks_mhz = curves.sm_clock_mhz
        lost = _UNSEEN * _lost_share(clocks_mhz[0] / clocks_mhz)
        for number, count in self._followed[phase.number].items():
            if number in known:
                lost += count * _lost_share(merged_time(known[number], clocks_mhz))
        return np.asarray(lost * REACTION_S / max(phase.duration_s, REACTION_S))


def _lost_share(time: Array) -> Array:
    """Return which share of the time is lost where work takes ``time`` times as long."""
    return np.asarray(1.0 - 1.0 / np.maximum(time, 1.0))
