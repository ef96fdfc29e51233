"""The best so far, outcome by outcome, as :func:`joulelab.searching.standing.standing` has it."""

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
