"""How a search went: after each trial, the best so far and what it had cost to find."""

from dataclasses import dataclass

from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.leader import Leader


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
