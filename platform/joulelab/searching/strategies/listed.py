"""Strategies that go through a list: the whole grid, a random order, or clocks near the ridge.

Measure around the ridge clock, below which lower voltage saves nothing more.

Schoonhoven, Veenboer, van Werkhoven, Batenburg, "Going green: optimizing GPUs for energy
efficiency through model-steered auto-tuning" (PMBS 2022), as Kernel Tuner does it: power of one
program at some clocks is fitted by ``min(P_max, P0 + a f v(f)^2)`` with v = 1 up to the ridge and
linear beyond it, and all else is searched for at the clocks within 10 % of the ridge.
"""

from abc import abstractmethod
from collections.abc import Sequence
from random import Random as Generator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.core import power_law
from joulelab.core.configuration import Configuration
from joulelab.searching.base import Outcome, Strategy
from joulelab.searching.evidence import Evidence, Problem


class Listed(Strategy):
    """Asks for each configuration of a list once, leaving out those whose outcome is known.

    A failed one is not asked for again: trying again is up to who runs the trials.
    """

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        del seed
        self.evidence = Evidence(problem)
        self._taken: set[Configuration] = set()
        self._out: set[Configuration] = set()

    @abstractmethod
    def wanted(self) -> Sequence[Configuration]:
        """Return what to measure as far as it is known, the next first."""

    @override
    def ask(self) -> Configuration | None:
        following = next((each for each in self.wanted() if each not in self._taken), None)
        if following is not None:
            self._taken.add(following)
            self._out.add(following)
        return following

    @override
    def tell(self, outcome: Outcome) -> None:
        self.evidence.add(outcome)
        self._taken.add(outcome.candidate)
        self._out.discard(outcome.candidate)

    @property
    @override
    def is_done(self) -> bool:
        return not self._out and all(each in self._taken for each in self.wanted())


class Grid(Listed):
    """Every configuration once, in the order of the space."""

    @override
    def wanted(self) -> Sequence[Configuration]:
        return self.evidence.problem.space


class Random(Listed):
    """The baseline, then every other configuration once in random order."""

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        super().__init__(problem)
        rest = list(problem.space)[1:]
        Generator(seed).shuffle(rest)  # noqa: S311 - an order of trials, not a secret
        self._order = [problem.space.baseline, *rest]

    @override
    def wanted(self) -> Sequence[Configuration]:
        return self._order


Array = NDArray[np.float64]

_NUM_PROBES = 10
_WINDOW = 0.1
_LEAST_PROBES = 4


class Ridge(Listed):
    """Probes the baseline's clocks, then searches near the ridge in random order."""

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        super().__init__(problem)
        space = problem.space
        self._probes = [space.baseline, *_probes(problem)]
        self._shuffled = list(space)
        Generator(seed).shuffle(self._shuffled)  # noqa: S311 - an order of trials, not a secret
        self._near: list[Configuration] | None = None

    @override
    def wanted(self) -> Sequence[Configuration]:
        measured = {outcome.candidate for outcome in self.evidence.outcomes}
        if not measured.issuperset(self._probes):
            return self._probes
        if self._near is None:
            self._near = self._window()
        return [*self._probes, *self._near]

    def _window(self) -> list[Configuration]:
        """Return what lies within 10 % of the ridge; everything if too little is known of it."""
        points = []
        for probe in self._probes[1:]:
            figures = self.evidence.mean(probe)
            if figures is not None and probe.point.sm_clock_mhz is not None:
                points.append((probe.point.sm_clock_mhz, figures.energy_j / figures.time_s))
        if len(points) < _LEAST_PROBES:
            return self._shuffled
        ridge_mhz = fitted_ridge_mhz(np.array(points, dtype=np.float64))
        clocks = [c.point.sm_clock_mhz or 0 for c in self._shuffled]
        nearest = min(clocks, key=lambda clock: abs(clock - ridge_mhz))
        reach = max(_WINDOW * ridge_mhz, abs(nearest - ridge_mhz))
        return [
            configuration
            for configuration, clock in zip(self._shuffled, clocks, strict=True)
            if abs(clock - ridge_mhz) <= reach
        ]


def fitted_ridge_mhz(points: Array) -> float:
    """Return the ridge of Kernel Tuner's law of power through 4 points or more of MHz and watts."""
    clock, power = points[:, 0] / points[:, 0].max(), points[:, 1] / points[:, 1].max()

    def misfit(parameters: Array) -> Array:
        least, slope, ridge, gain, most = parameters
        squared = power_law.voltage(power_law.height(clock, ridge, 1.0), gain) ** 2
        return np.asarray(
            np.minimum(most, power_law.board_w(least, squared, slope * clock)) - power
        )

    bounds = ([0.0, 0.0, float(clock.min()), 0.0, 0.9], [1.0, 2.0, 1.0, 5.0, 1.1])
    starts = [r for r in (0.55, 0.65, 0.75, 0.85) if clock.min() < r < 1.0] or [0.99]
    fits = [least_squares(misfit, [0.3, 0.5, r, 0.8, 1.05], bounds=bounds) for r in starts]
    best = min(fits, key=lambda fit: float(fit.cost))
    return float(best.x[2] * points[:, 0].max())


def _probes(problem: Problem) -> list[Configuration]:
    """Return evenly spaced clocks of the baseline's cell, at the highest power limit."""
    space = problem.space
    own = [c for c in space if c.knobs == space.baseline.knobs and c.point.sm_clock_mhz]
    by_clock = {
        c.point.sm_clock_mhz: c for c in sorted(own, key=lambda c: c.point.power_limit_w or 1e9)
    }
    clocks = sorted(clock for clock in by_clock if clock is not None)
    places = np.unique(np.linspace(0, len(clocks) - 1, _NUM_PROBES).round().astype(int))
    return [by_clock[clocks[place]] for place in places[::-1]] if clocks else []
