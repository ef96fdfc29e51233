"""How a search went: after each trial, the best so far and what it had cost to find."""

from dataclasses import dataclass, field, replace
from math import exp, isfinite

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import estimates
from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import Judgement
from joulelab.searching.cost import board_cost_sd, cost_of
from joulelab.searching.evidence import Evidence, Problem

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """What is best so far.

    Attributes:
        best: Its configuration.
        cost_ratio: Its cost over the baseline's; ``None`` where it has no bound.
        is_feasible: Whether it keeps to the constraints with the confidence asked for.
    """

    best: Configuration
    cost_ratio: float | None
    is_feasible: bool


@dataclass(slots=True, kw_only=True)
class _Trials:
    """Trials of finite cost: numbers of configurations and boards, logarithms and uncertainties."""

    configuration: list[int] = field(default_factory=list)
    board: list[int] = field(default_factory=list)
    log: list[float] = field(default_factory=list)
    u: list[float] = field(default_factory=list)


class Leader:
    """Finds the best so far at little cost a trial.

    Args:
        problem: What is searched for.
    """

    def __init__(self, problem: Problem) -> None:
        self._evidence = Evidence(problem)
        self._judged: dict[Configuration, Judgement] = {}
        self._number: dict[Configuration, int] = {}
        self._boards: dict[str, int] = {}
        self._trials = _Trials()
        self._estimate, self._effect = np.zeros(0), np.zeros(0)

    def add(self, outcome: Outcome) -> None:
        """Take in what came of a trial."""
        if not self._evidence.add(outcome) or (figures := outcome.figures) is None:
            return
        problem = self._evidence.problem
        cost = cost_of(problem.objective, replace(figures, retention_u=None))
        if isfinite(cost.log):
            board = self._boards.setdefault(figures.board, len(self._boards))
            number = self._number.setdefault(outcome.candidate, len(self._number))
            self._trials.configuration.append(number)
            self._trials.board.append(board)
            self._trials.log.append(cost.log)
            self._trials.u.append(cost.u)
            self._estimate, self._effect = self._estimates(np.arange(len(self._trials.log)))
        is_default = outcome.candidate.point.is_default
        for each in self._evidence.measured if is_default else (outcome.candidate,):
            self._judged[each] = self._evidence.judgement(each)

    def lead(self) -> Lead | None:
        """Return the best so far; ``None`` before the baseline was measured."""
        if self._evidence.baseline is None:
            return None
        kept = [number for each, number in self._number.items() if self._judged[each].is_feasible]
        if kept:
            best = list(self._number)[self._lowest(np.array(kept))]
        else:
            best = min(self._judged, key=lambda each: _miss(self._judged[each]))
        ratio = (
            None
            if best not in self._number
            else self._over_baseline(float(self._estimate[self._number[best]]))
        )
        return Lead(best=best, cost_ratio=ratio, is_feasible=bool(kept))

    def ratio(self, figures: Figures) -> float | None:
        """Return the cost of a trial over the baseline's, with its board taken out."""
        cost = cost_of(self._evidence.problem.objective, figures)
        if not isfinite(cost.log) or figures.board not in self._boards:
            return None
        return self._over_baseline(cost.log - float(self._effect[self._boards[figures.board]]))

    def _over_baseline(self, log: float) -> float | None:
        baseline = self._number.get(self._evidence.problem.space.baseline)
        return None if baseline is None else exp(log - float(self._estimate[baseline]))

    def _lowest(self, kept: NDArray[np.intp]) -> int:
        """Return which of ``kept`` costs least, as only they tell of the boards."""
        if len(kept) == len(self._number):
            return int(np.argmin(self._estimate))
        trials = np.flatnonzero(np.isin(self._trials.configuration, kept))
        return int(kept[np.argmin(self._estimates(trials)[0])])

    def _estimates(self, trials: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return estimates of the configurations of some trials, and effects of their boards."""
        every = self._trials
        _, configuration = np.unique(np.array(every.configuration)[trials], return_inverse=True)
        _, board = np.unique(np.array(every.board)[trials], return_inverse=True)
        return estimates(
            configuration,
            board,
            np.array(every.log)[trials],
            np.array(every.u)[trials],
            board_cost_sd(self._evidence.problem.objective),
        )


def _miss(judgement: Judgement) -> tuple[float, float]:
    return judgement.violation, -judgement.probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a search stood after one more trial.

    Attributes:
        number: How many trials had ended, this one included.
        outcome: What came of it.
        spent_j: Energy that the search had taken.
        cost_ratio: Cost that this trial found over the baseline's; ``None`` without figures,
            before the baseline was measured, and where it has no bound.
        best: The best configuration so far; ``None`` before the baseline was measured.
        best_cost_ratio: Its cost over the baseline's, likewise.
        is_feasible: Whether it keeps to the constraints with the confidence asked for.
        num_valid: Trials so far with figures.
        num_capped: Trials so far that were power-capped.
        num_failed: Trials so far that gave nothing.
    """

    number: int
    outcome: Outcome
    spent_j: float
    cost_ratio: float | None
    best: Configuration | None
    best_cost_ratio: float | None
    is_feasible: bool
    num_valid: int
    num_capped: int
    num_failed: int


class Course:
    """The course of a search, a step for each trial in the order in which they ended.

    Costs are compared with the baseline's as the answer does, with the boards taken out.

    Args:
        problem: What is searched for.
    """

    def __init__(self, problem: Problem) -> None:
        self.steps: list[Step] = []
        self._leader = Leader(problem)
        self._num = {"valid": 0, "capped": 0, "failed": 0}

    def add(self, outcome: Outcome, *, spent_j: float) -> Step:
        """Take in what came of one more trial, and return where the search stands.

        Args:
            outcome: What came of it.
            spent_j: Energy that the search has taken by now.

        Raises:
            MeasurementError: If the cost or a bounded quantity was not measured.
        """
        kind = "valid" if outcome.figures is not None else "capped" if outcome.capped else "failed"
        self._num[kind] += 1
        self._leader.add(outcome)
        lead = self._leader.lead()
        step = Step(
            number=len(self.steps) + 1,
            outcome=outcome,
            spent_j=spent_j,
            cost_ratio=None if outcome.figures is None else self._leader.ratio(outcome.figures),
            best=None if lead is None else lead.best,
            best_cost_ratio=None if lead is None else lead.cost_ratio,
            is_feasible=lead is not None and lead.is_feasible,
            num_valid=self._num["valid"],
            num_capped=self._num["capped"],
            num_failed=self._num["failed"],
        )
        self.steps.append(step)
        return step

    def cost_ratio(self, figures: Figures) -> float | None:
        """Return the cost of a trial that was added over the baseline's, as steps have it."""
        return self._leader.ratio(figures)
