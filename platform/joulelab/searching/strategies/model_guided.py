"""Measure where the physics of what was measured so far leaves most to gain."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.process import one_thread
from joulelab.searching.base import Outcome, Strategy, cost_of
from joulelab.searching.constraints import over_cells
from joulelab.searching.evidence import Evidence, Problem
from joulelab.searching.model.candidates import PROBE_RATIO, Caps, expected_equals
from joulelab.searching.model.feasibility import surely_infeasible
from joulelab.searching.model.forecast import Forecast, Forecaster
from joulelab.searching.model.improvement import (
    LOST,
    Improvement,
    Improvements,
    lowest_after,
    promising,
    widest_gap,
)

Array = NDArray[np.float64]

_MOST_PROBED = 150
"""Configurations of a cell among which a probe is chosen: more are too near to each other."""
_NUM_PROBES = 2
"""Clocks besides the baseline's at which its cell is probed; one less on a calibrated board."""
_MOST_FAILURES, _MOST_OF_CELL = 2, 3
"""Failures after which a configuration, and a cell of which nothing was measured, is given up."""
_HOPE = 0.05  # probability of keeping to the constraints below which nothing is probed
_SURE = 0.99  # the same from which on nothing need be known of its neighbours before
_EVEN = 0.5  # the same of what is only measured because it lies beside the choice
_CLOSE, _CLOSE_LAWLESS = 2e-3, 1e-2
"""Expected improvement from which on it is looked beside the choice first; the second where the law
is known to fail, and with it what is expected."""
_OPEN, _OPEN_LAWLESS = 0.05, 0.01
"""Probability that any configuration is better by what matters, from which on one is tried; the
second where the law is known to fail, and with it what is expected."""
_WORTH = 5e-4
"""Least expected improvement that the model can tell, for which something is tried if points cost
no more than that is worth."""
_AT_ONCE = 8
"""For each so many trials that were out at most, the outcome of one is awaited before beliefs are
formed anew; at the end of a search, too, when few are out: all wait for what little is left."""


class ModelGuided(Strategy):
    """Expected improvement under the constraints, on a law of time and power.

    It starts with the baseline and two probes of its clock axis, each where that is expected to
    tell most of which clock to choose; only what is asked for before the baseline's outcome is
    known goes to a clock that is set beforehand. What cells have in common is shared, so that most
    are measured once or not at all. What is still out counts as known in how far it will narrow the
    model, so that several trials out at once do not ask the same. So do the
    first few outcomes of many, until beliefs are formed anew. Nothing here is random.
    """

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        self.evidence = Evidence(problem)
        self._space = problem.space
        self._forecaster = Forecaster(self.evidence)
        self._out: list[int] = []
        self._unseen: list[int] = []  # asked for, with outcomes that the forecast lacks, if any
        self._num_news = self._most_out = 0  # outcomes that it lacks; trials out at once
        self._caps = Caps(self.evidence, self._forecaster.cell, self._forecaster.ratio)
        self._needs_references = over_cells(problem.constraints)
        self._opening = self._opening_places()
        self._infeasible = surely_infeasible(problem)
        self._forecast: Forecast | None = None
        self._improvements: Improvements | None = None
        del seed

    @override
    @one_thread()
    def ask(self) -> Configuration | None:
        place = self._next()
        if place is None:
            return None
        place = self._reference_first(place)
        self._out.append(place)
        self._unseen.append(place)
        self._most_out = max(self._most_out, len(self._out))
        configuration: Configuration = self._space[place]
        return configuration

    @override
    def tell(self, outcome: Outcome) -> None:
        self.evidence.add(outcome)
        place = self._space.index(outcome.candidate)
        if place in self._out:
            self._out.remove(place)
        self._num_news += 1
        is_enough = self._num_news * _AT_ONCE >= self._most_out or not self._out
        if outcome.figures is None or is_enough:
            self._forecast = None

    @property
    @override
    def is_done(self) -> bool:
        if self._out:
            return False
        with one_thread():
            return self._next() is None

    @one_thread()
    def forecast(self) -> Forecast:
        """Return what is expected of every configuration; something must have been measured."""
        if self._forecast is None:
            self._forecast = self._forecaster.forecast()
            self._unseen, self._num_news = list(self._out), 0
        return self._forecast

    def equals(self) -> tuple[Configuration, ...]:
        """Return what is indistinguishable from the best, measured or not, the best first."""
        confidence = self.evidence.problem.confidence
        return expected_equals(self.forecast(), self._space, confidence=confidence)

    def _next(self) -> int | None:
        """Return the place of what to measure next; ``None`` if nothing is worth it now."""
        free = self._free()
        waiting = not self.evidence.measured
        for place in self._opening if waiting else self._opening[:1]:
            if free[place]:
                return place
        if waiting or not free.any():
            return None
        if (probe := self._probe(free)) is not None:
            return probe
        forecast = self.forecast()
        free &= ~self._awaited(forecast)
        gain = self._gain(forecast, free & ~forecast.is_capped)
        best = int(np.argmax(gain.expected))
        is_lawless = forecast.belief.is_lawless
        close, least = (_CLOSE_LAWLESS, _OPEN_LAWLESS) if is_lawless else (_CLOSE, _OPEN)
        needed = max(self.evidence.least_gain, _WORTH)
        is_open = gain.chance.max() > least and gain.expected[best] > needed
        likely = free & ~forecast.is_capped & (forecast.feasible >= _EVEN)
        is_close = needed < close and (gain.expected[best] < close or not is_open)
        if is_close and (beside := self._beside(forecast, likely)) is not None:
            return beside
        if is_open:
            return best
        worth = np.where(likely, gain.expected, 0.0)
        pays = worth.sum() > needed and self._chance_of_any(forecast, likely) > least
        return int(np.argmax(worth)) if pays else None

    def _reference_first(self, place: int) -> int:
        """Return the driver's clock in place of another one of a cell of which it is not known.

        That is where slowdowns are bounded, which are over it.
        """
        usual = int(self._forecaster.reference[place])
        tried = [*self._out, *map(self._space.index, self.evidence.measured)]
        is_known = usual in tried or self.evidence.num_failures(self._space[usual])
        return place if is_known or not self._needs_references else usual

    def _probe(self, free: NDArray[np.bool_]) -> int | None:
        """Return where a probe of the baseline's cell tells most; ``None`` if it had its probes."""
        cell = self._forecaster.cell
        tried = {self._space.index(outcome.candidate) for outcome in self.evidence.outcomes}
        own = np.flatnonzero(cell == cell[0])
        own = own[np.linspace(0, len(own) - 1, min(len(own), _MOST_PROBED)).astype(np.intp)]
        left = own[free[own]]
        most = _NUM_PROBES - self.evidence.problem.knows_board
        if not len(left) or len((tried | set(self._out)) & set(own.tolist())) > most:
            return None
        forecast = self.forecast()
        left = left[~forecast.is_capped[left] & (forecast.feasible[left] > _HOPE)]
        if not len(left):
            return None
        lowest = lowest_after(forecast, left, own, self._unseen)
        return int(left[np.argmin(lowest)])

    def _beside(self, forecast: Forecast, free: NDArray[np.bool_]) -> int | None:
        """Return where nobody looked beside the choice; ``None`` if everywhere was looked at."""
        tried = np.zeros(len(free), dtype=bool)
        tried[[self._space.index(each.candidate) for each in self.evidence.outcomes]] = True
        tried[self._out] = True
        if (choice := self._best(forecast)) is None:
            return None
        for each in dict.fromkeys((choice, self._lowest(forecast))):
            gap = widest_gap(
                forecast.rows, each, tried, free, is_lawless=forecast.belief.is_lawless
            )
            if gap is not None:
                return gap
        return None

    def _free(self) -> NDArray[np.bool_]:
        """Return which configurations may be asked for."""
        free = ~self._infeasible
        free[[self._space.index(each) for each in self.evidence.measured]] = False
        free[self._out] = False
        free[self._caps.identical()] = False
        for outcome in self.evidence.outcomes:
            failures = self.evidence.num_failures(outcome.candidate)
            if outcome.barred or failures >= _MOST_FAILURES:
                free[self._space.index(outcome.candidate)] = False
        free[np.isin(self._forecaster.cell, self._failed_cells())] = False
        return free

    def _awaited(self, forecast: Forecast) -> NDArray[np.bool_]:
        """Return what may break the constraints while a trial is out that tells whether it does.

        That is another one of its cell that may, as neighbours break a bound together, or what its
        slowdown is over. What is little likely is left for when nothing likelier is out.
        """
        doubtful, cell = forecast.feasible < _SURE, self._forecaster.cell
        open_ = doubtful.copy()
        if self._needs_references:
            open_[self._forecaster.reference] = True
        out = [place for place in self._unseen if place and open_[place]]
        unlikely = forecast.feasible < (_HOPE if out else 0.0)
        may_be_held = self._caps.open_clocks()
        asked = [place for place in self._unseen if may_be_held[place]]
        return np.asarray(
            unlikely
            | (doubtful & np.isin(cell, cell[out]))
            | (may_be_held & np.isin(cell, cell[asked]))
        )

    def _failed_cells(self) -> list[int]:
        """Return the cells of which only failures are known, as of a batch that does not fit."""
        seen: Counter[int] = Counter()
        failed: Counter[int] = Counter()
        for outcome in (each for each in self.evidence.outcomes if not each.barred):
            count = failed if outcome.seen is None else seen
            count[int(self._forecaster.cell[self._space.index(outcome.candidate)])] += 1
        return [cell for cell, num in failed.items() if num >= _MOST_OF_CELL and cell not in seen]

    def _gain(self, forecast: Forecast, free: NDArray[np.bool_]) -> Improvement:
        """Return the expected improvement on the best so far that keeps to the constraints.

        What is out counts as measured, with what is expected of it. As long as nothing keeps to
        the constraints, what is expected to is better the less it costs, and else the likelier,
        and however unlikely, it is tried: it would improve on none.
        What is not free, and what cannot be the next, has less than none.
        """
        found, chance, best = np.full(len(free), -1.0), np.zeros(len(free)), self._best(forecast)
        if best is None:
            cost = np.minimum(forecast.log_cost, LOST)
            saved = cost.max() - cost + 1.0
            confidence = self.evidence.problem.confidence
            worth = np.where(forecast.feasible >= confidence, saved, forecast.feasible)
            return Improvement(expected=np.where(free, worth, -1.0), chance=free.astype(np.float64))
        known = self._improvements
        if known is None or known.best != best or known.forecast is not forecast:
            known = self._improvements = Improvements(forecast, best, promising(forecast, free))
        at = np.flatnonzero(free[known.places])
        gain, places = known.after(self._unseen), known.places[at]
        feasible = forecast.feasible[places]
        # Squared: at even odds a trial beyond a bound would be half of all near it.
        found[places] = gain.expected[at] * feasible**2
        chance[places] = gain.chance[at] * feasible
        return Improvement(expected=found, chance=chance)

    def _chance_of_any(self, forecast: Forecast, free: NDArray[np.bool_]) -> float:
        """Return how likely anything that was not measured is better by what matters."""
        if (known := self._improvements) is None or known.forecast is not forecast:
            return 1.0
        feasible = np.where(free, forecast.feasible, 0.0)
        return known.chance_of_any(self._unseen, feasible[known.places])

    def _best(self, forecast: Forecast) -> int | None:
        """Return the best of what was measured and of what is out; ``None`` if none may be it."""
        measured = [self._space.index(each) for each in self.evidence.measured]
        tried = np.array([*measured, *self._out])
        kept = tried[forecast.feasible[tried] >= self.evidence.problem.confidence]
        return int(kept[np.argmin(forecast.log_cost[kept])]) if len(kept) else None

    def _lowest(self, forecast: Forecast) -> int:
        """Return what reads lowest, which the answer goes by: beside a step it is not the best."""
        objective = self.evidence.problem.objective
        read = {
            self._space.index(each): cost_of(objective, figures).log
            for each in self.evidence.measured
            if (figures := self.evidence.mean(each)) is not None
        }
        likely = [at for at in read if forecast.feasible[at] >= self.evidence.problem.confidence]
        return min(likely or read, key=read.__getitem__)

    def _opening_places(self) -> list[int]:
        """Return the baseline, a probe of its cell, and then of cells as far apart as possible."""
        cell, ratio = self._forecaster.cell, self._forecaster.ratio
        members = [np.flatnonzero(cell == each) for each in range(int(cell.max()) + 1)]
        probes = [int(at[np.argmin(np.abs(ratio[at] - PROBE_RATIO))]) for at in members]
        others = [self._reference_first(probe) for probe in reversed(probes[1:])]
        return list(dict.fromkeys([0, probes[0], *others]))
