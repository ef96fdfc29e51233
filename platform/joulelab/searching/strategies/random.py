"""Measure in random order: what any cleverer search must beat."""

from collections.abc import Sequence
from random import Random as Generator

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies.listed import Listed


class Random(Listed):
    """The baseline, then every other configuration once in random order.

    Args:
        problem: What is searched for.
        seed: Of the order.
    """

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        super().__init__(problem)
        rest = list(problem.space)[1:]
        Generator(seed).shuffle(rest)  # noqa: S311 - an order of trials, not a secret
        self._order = [problem.space.baseline, *rest]

    @override
    def wanted(self) -> Sequence[Configuration]:
        return self._order
