"""What need not be measured, because its outputs are known to be no good."""

from math import log

import numpy as np
from numpy.typing import NDArray

from joulelab.searching.constraints import probability_below
from joulelab.searching.evidence import Problem
from joulelab.searching.kept import Kept


def surely_infeasible(problem: Problem) -> NDArray[np.bool_]:
    """Return which configurations lose too much of the quality, as far as it is known before.

    Those are the ones that are as sure to break a bound on the quality as a choice must be to
    keep it, and, where quality counts, those that lose it all. The baseline is none of them: what
    others are compared with is measured whatever it is worth.
    """
    verdicts = {
        cell: _is_surely_infeasible(kept, problem) for cell, kept in problem.qualities.items()
    }
    found = np.array([verdicts.get(each.knobs, False) for each in problem.space], dtype=bool)
    found[0] = False
    return found


def _is_surely_infeasible(kept: Kept, problem: Problem) -> bool:
    floors = [each.bound for each in problem.constraints if each.quantity == "quality"]
    if kept.retention == 0:
        return bool(problem.objective.quality_exponent or floors)
    least = 1.0 - problem.confidence
    return any(
        probability_below(0.0, log(bound / kept.retention), kept.relative_u) < least
        for bound in floors
    )
