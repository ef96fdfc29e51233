"""The strategies of the governor: who chooses the clock."""

from collections import deque
from collections.abc import Sequence
from math import exp, log, sqrt
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.point import OperatingPoint
from joulelab.core.power_law import CAP_SHARE
from joulelab.devices.simulated.physics import LoadPoint
from joulelab.errors import ConfigError
from joulelab.governor.loads import SimulatedLoad
from joulelab.governor.phase import DEFAULT, Phase
from joulelab.governor.strategy import Array, Rules, Situation, Strategy, least_allowed


class Fixed(Strategy):
    """Sets one clock or power limit in every phase, or the lowest above it that is allowed."""

    name: ClassVar = "fixed"

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        if rules.fixed is None:
            raise ConfigError(
                "The strategy fixed needs the value to set, in MHz of an SM clock or W of a power "
                "limit (--fixed 1410)."
            )
        self._value = rules.fixed

    @override
    def choose(self, situation: Situation) -> int:
        points = situation.curves.points
        values = [point.sm_clock_mhz or point.power_limit_w or np.inf for point in points]
        high = [k for k, value in enumerate(values) if value >= self._value]
        return max(k for k in high if situation.allowed[k])


class RaceToIdle(Strategy):
    """Leaves work to the driver's own clock, and takes the cheapest one while nothing runs."""

    name: ClassVar = "race-to-idle"

    @override
    def choose(self, situation: Situation) -> int:
        if not situation.phase.is_idle:
            return 0
        return least_allowed(situation.costs_j(), situation.allowed)


_DOUBT = 1.0
_WORTH = 0.001
"""A change of the clock must be worth so much of the cost: every change disturbs the program."""


class Model(Strategy):
    """Takes the point of least cost by the law, which every point that is tried makes surer.

    Where the law leaves much open, costs are taken to be a little lower than expected, so that
    points are tried that may be better; those that may break the limit are not allowed, and so it
    goes down step by step.
    """

    name: ClassVar = "model"
    sets_held: ClassVar = True

    @override
    def choose(self, situation: Situation) -> int:
        costs = situation.costs_j(_DOUBT)
        best, before = least_allowed(costs, situation.allowed), situation.before
        if not situation.allowed[before] or costs[best] < (1 - _WORTH) * costs[before]:
            return best
        return before


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


_ROUNDS = 20


class Oracle(Strategy):
    """Knows which phase plays, and its true time and power at every clock.

    Its points are those of least cost within the slowdown limit in each phase, at the mean power of
    the whole load as the price of a second. It changes the clock at the look after a change.
    """

    name: ClassVar = "oracle"
    needs_load: ClassVar = True

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        if rules.knob != "sm-clock":
            raise ConfigError(f"The oracle knows SM clocks alone, got --knob {rules.knob}.")
        self._load: SimulatedLoad | None = None
        self._points: dict[str, OperatingPoint] = {}

    @override
    def watch(self, load: SimulatedLoad) -> None:
        self._load = load
        curves = {phase: _curve(load, phase) for phase in load.costs}
        means_s = {stage.phase: stage.mean_s * exp(stage.spread**2 / 2) for stage in load.stages}
        price_w = 0.0
        for _ in range(_ROUNDS):
            best = {phase: self._best(*curve[1:], price_w) for phase, curve in curves.items()}
            spent = [
                (means_s[phase] * curves[phase][1][k], curves[phase][2][k])
                for phase, k in best.items()
            ]
            total_s = sum(time_s for time_s, _ in spent)
            mean_w = sum(time_s * power_w for time_s, power_w in spent) / total_s
            price_w = self.rules.price_exponent * mean_w
        for phase, k in best.items():
            clock_mhz = curves[phase][0][k]
            self._points[phase] = OperatingPoint(sm_clock_mhz=clock_mhz) if k else DEFAULT

    @override
    def foresee(self) -> OperatingPoint | None:
        if self._load is None or self._load.phase is None:
            return DEFAULT
        return self._points[self._load.phase]

    @override
    def choose(self, situation: Situation) -> int:
        return 0

    def _best(self, time: Array, power_w: Array, price_w: float) -> int:
        cost = np.where(time <= 1 + self.rules.max_slowdown, time * (power_w + price_w), np.inf)
        return int(cost.argmin())


def _curve(load: SimulatedLoad, phase: str) -> tuple[list[int], Array, Array]:
    """Return clocks, the driver's own first, with true relative times and powers."""
    spec, model = load.spec, load.model(phase)
    points: dict[int, LoadPoint] = {
        clock: model.at(clock, spec.mem_clocks_mhz[0])
        for clock in spec.sm_clocks_mhz
        if clock <= spec.default_clock_mhz
    }
    limit_w = CAP_SHARE * spec.default_power_limit_w
    clocks = [clock for clock in points if load.shown_w(points[clock].power_w) <= limit_w]
    times = np.array([points[clock].duration_s for clock in clocks])
    time = np.ones(len(clocks)) if phase == "idle" else times / times[0]
    return clocks, time, np.array([points[clock].power_w for clock in clocks])
