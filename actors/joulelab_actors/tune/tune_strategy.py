"""An algorithm of Ray Tune's as a strategy."""

from collections.abc import Callable
from itertools import count
from typing import Any

from ray import tune
from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.searching.base import Figures, Outcome, Strategy, cost_of
from joulelab.searching.evidence import Evidence, Problem

Point = dict[str, float]
"""Where on each axis a configuration lies: places of the values in order, or between two."""

MOST_DOUBLES = 200
"""Suggestions in a row that are known already, after which an algorithm counts as at its end."""


class TuneStrategy(Strategy):
    """Asks for the baseline, then for what an algorithm of Tune's suggests.

    What is suggested again is answered from what was measured, so that no trial is spent on it;
    what was known before the first suggestion is suggested to the algorithm to begin with, which is
    how it takes part in a search that goes on. Its axes are those of the space; values that are
    numbers have an order, others are choices. ``make`` makes the algorithm, without a space, from
    the points to suggest first; it counts as at its end after ``most_doubles`` suggestions in a row
    that are known already. It chooses whole numbers if it ``takes_places``, else between them.
    ``objectives`` name what it minimises: ``"cost"`` of the objective with infeasible ones after
    all feasible ones, by how much they miss (Deb, Computer Methods in Applied Mechanics and
    Engineering 186, 2000); or of ``"energy"``, ``"time"`` and ``"loss"`` of quality, which heed no
    constraints.
    """

    def __init__(
        self,
        problem: Problem,
        make: Callable[[list[Point]], Searcher],
        *,
        objectives: tuple[str, ...] = ("cost",),
        most_doubles: int = MOST_DOUBLES,
        takes_places: bool = True,
    ) -> None:
        self.evidence = Evidence(problem)
        self._space = problem.space
        self._make = make
        self._objectives = objectives
        self._most_doubles, self._takes_places = most_doubles, takes_places
        self._axes = {name: _ordered(values) for name, values in problem.space.axes.items()}
        self._by_values = {problem.space.values(each): each for each in problem.space}
        self._searcher: Searcher | None = None
        self._num_first = 0  # of known ones that it suggests to begin with
        self._waiting: dict[Configuration, list[str]] = {}
        self._names = count()
        self._ended = False

    @override
    def ask(self) -> Configuration | None:
        baseline = self._space.baseline
        if not self._is_known(baseline) and baseline not in self._waiting:
            self._waiting[baseline] = []
            return baseline
        if baseline in self._waiting and self.evidence.problem.constraints:
            return None  # what is bounded may be bounded with regard to it
        if self._searcher is None:
            self._searcher = self._begin()
        return None if self._ended else self._suggested(self._searcher)

    @override
    def tell(self, outcome: Outcome) -> None:
        self.evidence.add(outcome)
        for name in self._waiting.pop(outcome.candidate, ()):
            self._answer(name, outcome.candidate)

    @property
    @override
    def is_done(self) -> bool:
        unknown = len(self._by_values) - len(self._waiting)
        settled = sum(map(self._is_known, self._by_values.values()))
        return not self._waiting and (self._ended or settled >= unknown)

    def _suggested(self, searcher: Searcher) -> Configuration | None:
        """Return the first suggestion that is neither known nor out; ``None`` if there is none."""
        doubles, self._num_first = self._most_doubles + self._num_first, 0
        for _ in range(doubles):
            name = f"{next(self._names)}"
            point: Any = searcher.suggest(name)
            if point is None:
                return None
            if point == Searcher.FINISHED:
                break
            candidate = self._at(point)
            if self._is_known(candidate):
                self._answer(name, candidate)
            elif candidate in self._waiting:
                self._waiting[candidate].append(name)
            else:
                self._waiting[candidate] = [name]
                return candidate
        self._ended = True
        return None

    def _begin(self) -> Searcher:
        """Make the algorithm, which is to suggest first what is known already."""
        known = [each for each in self._by_values.values() if self._is_known(each)]
        points = [point for each in known if (point := self._point(each)) is not None]
        searcher = self._make(points)
        self._num_first = len(points)
        many = len(self._objectives) > 1
        searcher.set_search_properties(
            list(self._objectives) if many else self._objectives[0],  # type: ignore[arg-type]
            ["min"] * len(self._objectives) if many else "min",  # type: ignore[arg-type]
            {name: self._domain(values) for name, values in self._axes.items()},
        )
        return searcher

    def _domain(self, values: tuple[KnobValue, ...]) -> Any:
        """Return what Tune may choose from: places, which have an order if the values have one."""
        if not self._takes_places:
            return tune.uniform(0.0, float(len(values)))
        if len(_numbers(values)) == len(values):
            return tune.randint(0, len(values))
        return tune.choice(list(range(len(values))))

    def _is_known(self, candidate: Configuration) -> bool:
        failures = self.evidence.num_failures(candidate)
        return failures > 0 or self.evidence.mean(candidate) is not None

    def _at(self, point: Point) -> Configuration:
        places = [(values, int(point[name])) for name, values in self._axes.items()]
        return self._by_values[tuple(v[min(place, len(v) - 1)] for v, place in places)]

    def _point(self, candidate: Configuration) -> Point | None:
        values = dict(zip(self._axes, self._space.values(candidate), strict=True))
        if any(value not in self._axes[name] for name, value in values.items()):
            return None  # the baseline's clock is the driver's, on no axis
        middle = 0 if self._takes_places else 0.5
        return {name: self._axes[name].index(value) + middle for name, value in values.items()}

    def _answer(self, name: str, candidate: Configuration) -> None:
        if self._searcher is None:
            return
        result = self._result(candidate)
        self._searcher.on_trial_complete(name, result, error=result is None)

    def _result(self, candidate: Configuration) -> dict[str, Any] | None:
        figures = self.evidence.mean(candidate)
        if figures is None:
            return None
        if self._objectives == ("cost",):
            return {"cost": self._cost(candidate, figures)}
        known = {
            "energy": figures.energy_j,
            "time": figures.time_s,
            "loss": None if figures.retention is None else -figures.retention,
        }
        return {name: known[name] for name in self._objectives}

    def _cost(self, candidate: Configuration, figures: Figures) -> float:
        objective, judgement = self.evidence.problem.objective, self.evidence.judgement(candidate)
        if judgement.is_feasible:
            return cost_of(objective, figures).log
        feasible = [
            cost_of(objective, mean).log
            for each in self.evidence.measured
            if self.evidence.judgement(each).is_feasible
            and (mean := self.evidence.mean(each)) is not None
        ]
        # How far off it is: its violation, or else its doubt.
        return max(feasible, default=0.0) + (judgement.violation or 1 - judgement.probability)


def _ordered(values: tuple[KnobValue, ...]) -> tuple[KnobValue, ...]:
    """Return numbers by size, and anything else as it is."""
    numbers = _numbers(values)
    return tuple(sorted(numbers)) if len(numbers) == len(values) else values


def _numbers(values: tuple[KnobValue, ...]) -> list[int | float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
