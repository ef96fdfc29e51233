"""How a search went: after each trial, the best so far and what it had cost to find.

The best is what :func:`joulelab.searching.standing.standing` has, at little cost a trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import estimates
from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures, Outcome, board_cost_sd, cost_of
from joulelab.searching.constraints import Judgement
from joulelab.searching.evidence import Evidence, Problem

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a search stood after one more trial; the counts include it."""

    number: int  # how many trials had ended
    outcome: Outcome
    spent_j: float  # energy that the search had taken
    # Cost that this trial found over the baseline's; None without figures, before the baseline was
    # measured, and where it has no bound.
    cost_ratio: float | None
    # The best configuration so far; None before the baseline was measured.
    best: Configuration | None
    best_cost_ratio: float | None  # its cost over the baseline's, likewise
    is_feasible: bool  # whether it keeps to the constraints with the confidence asked for
    num_valid: int
    num_capped: int
    num_failed: int


class Course:
    """The course of a search, a step for each trial in the order in which they ended.

    Costs are compared with the baseline's as the answer does, with the boards taken out.
    """

    def __init__(self, problem: Problem) -> None:
        self.steps: list[Step] = []
        self._evidence = Evidence(problem)
        self._judged: dict[Configuration, Judgement] = {}
        self._number: dict[Configuration, int] = {}
        self._boards: dict[str, int] = {}
        self._trials: list[tuple[int, int, float, float]] = []
        """Of finite cost: numbers of configuration and board, logarithm and uncertainty."""
        self._estimate, self._effect = np.zeros(0), np.zeros(0)
        self._num = {"valid": 0, "capped": 0, "failed": 0}

    def add(self, outcome: Outcome, *, spent_j: float) -> Step:
        """Take in what came of one more trial, ``spent_j`` joules in; return where the search is.

        Raises MeasurementError if the cost or a bounded quantity was not measured.
        """
        kind = "valid" if outcome.figures is not None else "capped" if outcome.capped else "failed"
        self._num[kind] += 1
        if self._evidence.add(outcome) and outcome.figures is not None:
            self._take(outcome.candidate, outcome.figures)
        best = self._best()
        number = None if best is None else self._number.get(best)
        step = Step(
            number=len(self.steps) + 1,
            outcome=outcome,
            spent_j=spent_j,
            cost_ratio=None if outcome.figures is None else self.cost_ratio(outcome.figures),
            best=best,
            best_cost_ratio=None if number is None else self._ratio(self._estimate[number]),
            is_feasible=best in self._number and self._judged[best].is_feasible,
            num_valid=self._num["valid"],
            num_capped=self._num["capped"],
            num_failed=self._num["failed"],
        )
        self.steps.append(step)
        return step

    def cost_ratio(self, figures: Figures) -> float | None:
        """Return the cost of a trial that was added over the baseline's, as steps have it."""
        cost = cost_of(self._evidence.problem.objective, figures)
        if not isfinite(cost.log) or figures.board not in self._boards:
            return None
        return self._ratio(cost.log - self._effect[self._boards[figures.board]])

    def _take(self, candidate: Configuration, figures: Figures) -> None:
        cost = cost_of(self._evidence.problem.objective, replace(figures, retention_u=None))
        if isfinite(cost.log):
            board = self._boards.setdefault(figures.board, len(self._boards))
            number = self._number.setdefault(candidate, len(self._number))
            self._trials.append((number, board, cost.log, cost.u))
            self._estimate, self._effect = self._estimates(self._trials)
        is_default = candidate.point.is_default
        for each in self._evidence.measured if is_default else (candidate,):
            self._judged[each] = self._evidence.judgement(each)

    def _best(self) -> Configuration | None:
        """Return the best so far; ``None`` before the baseline was measured."""
        if self._evidence.baseline is None:
            return None
        kept = {each: n for each, n in self._number.items() if self._judged[each].is_feasible}
        if not kept:
            judged = self._judged
            return min(judged, key=lambda each: (judged[each].violation, -judged[each].probability))
        if len(kept) == len(self._number):
            return list(kept)[int(np.argmin(self._estimate))]
        own = set(kept.values())  # as only they tell of the boards
        estimate, _ = self._estimates([trial for trial in self._trials if trial[0] in own])
        return list(kept)[int(np.argmin(estimate))]

    def _ratio(self, log: float) -> float | None:
        baseline = self._number.get(self._evidence.problem.space.baseline)
        return None if baseline is None else exp(float(log) - float(self._estimate[baseline]))

    def _estimates(self, trials: Sequence[tuple[int, int, float, float]]) -> tuple[Array, Array]:
        """Return estimates of the configurations of some trials, and effects of their boards."""
        numbers, boards, logs, u = zip(*trials, strict=True)
        _, configuration = np.unique(numbers, return_inverse=True)
        _, board = np.unique(boards, return_inverse=True)
        sd = board_cost_sd(self._evidence.problem.objective)
        return estimates(configuration, board, np.array(logs), np.array(u), sd)
