"""Clocks as arms of a bandit, which needs no law to choose by."""

from collections import deque
from collections.abc import Sequence
from math import log, sqrt
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.point import OperatingPoint
from joulelab.governor.phase import Phase
from joulelab.governor.rules import Rules
from joulelab.governor.strategy import Situation, Strategy

_WINDOW = 1200
_RANGE, _WIDTH = 0.1, 0.6
"""Range of relative costs and width of the bound; the source leaves both to the user."""
_NUM_ARMS, _DWELL = 10, 5


class Bandit(Strategy):
    """Sliding-window UCB (Garivier and Moulines, ALT 2011), of each phase by itself.

    GPU clocks were chosen by such bounds before (EnergyUCB, arXiv:2410.11855). The cost of an arm
    is the mean of what its windows cost among the last two minutes of the phase; that of the least
    lower bound ``mean - B sqrt(xi log(n) / n_arm)`` is played, and one that was never played first.
    An arm is kept for half a second, and must be allowed by the slowdown limit.
    """

    name: ClassVar = "bandit"

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self._seen: dict[int, deque[tuple[OperatingPoint, float]]] = {}
        self._dwelt: dict[int, int] = {}

    @override
    def choose(self, situation: Situation) -> int:
        number, points = situation.phase.number, situation.curves.points
        before = situation.before
        if situation.allowed[before] and self._dwelt.get(number, _DWELL) < _DWELL:
            return before
        arms = _arms(np.flatnonzero(situation.allowed))
        costs: dict[OperatingPoint, list[float]] = {}
        for point, cost_j in self._seen.get(number, ()):
            costs.setdefault(point, []).append(cost_j)
        waking_j = situation.costs_j() - situation.curves.time * (
            situation.curves.power_w + situation.price_w
        )
        usual_j = situation.curves.power_w[0] + situation.price_w
        num = max(2, sum(map(len, costs.values())))

        def bound(arm: int) -> float:
            seen = costs.get(points[arm])
            if not seen:
                return -float("inf")
            doubt = _RANGE * sqrt(_WIDTH * log(num) / len(seen))
            return float((sum(seen) / len(seen) + waking_j[arm]) / usual_j) - doubt

        best = min(arms, key=bound)  # of several that were never played the highest clock
        self._dwelt[number] = 0
        return best

    @override
    def note(self, phase: Phase, point: OperatingPoint, cost_j: float) -> None:
        self._seen.setdefault(phase.number, deque(maxlen=_WINDOW)).append((point, cost_j))
        self._dwelt[phase.number] = self._dwelt.get(phase.number, 0) + 1


def _arms(allowed: Sequence[int] | np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> list[int]:
    """Return the driver's own point and some of the others, spread over all."""
    places = [int(place) for place in allowed]
    return places[:: max(1, round(len(places) / _NUM_ARMS))]
