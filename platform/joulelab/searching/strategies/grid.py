"""Measure everything."""

from collections.abc import Sequence

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies.listed import Listed


class Grid(Listed):
    """Every configuration once, in the order of the space.

    Args:
        problem: What is searched for.
        seed: Without effect.
    """

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        super().__init__(problem)
        del seed

    @override
    def wanted(self) -> Sequence[Configuration]:
        return self.evidence.problem.space
