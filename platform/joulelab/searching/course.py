"""How a search went: after each trial, the best so far and what it had cost to find."""

from collections import defaultdict
from dataclasses import dataclass
from math import exp, isfinite
from statistics import fmean

from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.cost import cost_of
from joulelab.searching.evidence import Evidence, Problem


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

    Costs are compared with the baseline's on the same board, or with its mean over boards where
    that board has not measured it.

    Args:
        problem: What is searched for.
    """

    def __init__(self, problem: Problem) -> None:
        self.steps: list[Step] = []
        self._evidence = Evidence(problem)
        self._problem = problem
        self._order: dict[Configuration, tuple[int, float, float]] = {}
        self._baseline: defaultdict[str, list[float]] = defaultdict(list)
        self._num = {"valid": 0, "capped": 0, "failed": 0}

    def add(self, outcome: Outcome, *, spent_j: float) -> Step:
        """Take in what came of one more trial, and return where the search stands.

        Args:
            outcome: What came of it.
            spent_j: Energy that the search has taken by now.

        Raises:
            MeasurementError: If the cost or a bounded quantity was not measured.
        """
        self._evidence.add(outcome)
        kind = "valid" if outcome.figures is not None else "capped" if outcome.capped else "failed"
        self._num[kind] += 1
        if outcome.figures is not None:
            self._place(outcome.candidate, outcome.figures)
        best = min(self._order, key=self._order.__getitem__, default=None)
        step = Step(
            number=len(self.steps) + 1,
            outcome=outcome,
            spent_j=spent_j,
            cost_ratio=None if outcome.figures is None else self.cost_ratio(outcome.figures),
            best=best,
            best_cost_ratio=None if best is None else self._mean_ratio(best),
            is_feasible=best is not None and self._order[best][0] == 0,
            num_valid=self._num["valid"],
            num_capped=self._num["capped"],
            num_failed=self._num["failed"],
        )
        self.steps.append(step)
        return step

    def cost_ratio(self, figures: Figures) -> float | None:
        """Return the cost of a trial over the baseline's, as far as that is known by now."""
        log_ratio = self._log_ratio(figures)
        return None if log_ratio is None else exp(log_ratio)

    def _place(self, candidate: Configuration, figures: Figures) -> None:
        """Rank a configuration anew; all of them if it is the baseline, to which they compare."""
        is_baseline = candidate == self._problem.space.baseline
        if is_baseline:
            self._baseline[figures.board].append(cost_of(self._problem.objective, figures).log)
        if self._evidence.baseline is not None:
            for each in self._evidence.measured if is_baseline else (candidate,):
                self._rank(each)

    def _rank(self, candidate: Configuration) -> None:
        judgement = self._evidence.judgement(candidate)
        ratio = self._mean_ratio(candidate)
        if not judgement.is_feasible:
            self._order[candidate] = (1, judgement.violation, -judgement.probability)
        elif ratio is not None:
            self._order[candidate] = (0, ratio, 0.0)

    def _mean_ratio(self, candidate: Configuration) -> float | None:
        known = [self._log_ratio(figures) for figures in self._evidence.repeats(candidate)]
        ratios = [ratio for ratio in known if ratio is not None]
        return exp(fmean(ratios)) if ratios else None

    def _log_ratio(self, figures: Figures) -> float | None:
        here = self._baseline.get(figures.board)
        known = here or [log for logs in self._baseline.values() for log in logs]
        if not known:
            return None
        ratio = cost_of(self._problem.objective, figures).log - fmean(known)
        return ratio if isfinite(ratio) else None
