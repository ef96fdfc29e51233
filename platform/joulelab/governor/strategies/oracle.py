"""What could be saved by whoever knew all: for benchmarks on simulated GPUs."""

from math import exp
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.point import OperatingPoint
from joulelab.core.power_law import CAP_SHARE
from joulelab.devices.simulated.physics import LoadPoint
from joulelab.errors import ConfigError
from joulelab.governor.loads import SimulatedLoad
from joulelab.governor.phase import DEFAULT
from joulelab.governor.rules import Rules
from joulelab.governor.strategy import Array, Situation, Strategy

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
