"""The cheapest point by the law of power and time, as far as it is known."""

from typing import ClassVar

from typing_extensions import override

from joulelab.governor.strategy import Situation, Strategy, least_allowed

_DOUBT = 0.5
_WORTH = 0.003
"""A change of the clock must be worth so much of the cost: every change disturbs the program."""


class Model(Strategy):
    """Takes the point of least cost by the law, which every point that is tried makes surer.

    Where the law leaves much open, costs are taken to be a little lower than expected, so that
    points are tried that may be better; those that may break the limit are not allowed, and so it
    goes down step by step.
    """

    name: ClassVar = "model"

    @override
    def choose(self, situation: Situation) -> int:
        costs = situation.costs_j(_DOUBT)
        best, before = least_allowed(costs, situation.allowed), situation.before
        if not situation.allowed[before] or costs[best] < (1 - _WORTH) * costs[before]:
            return best
        return before
