"""Work at full clock, and clock down while nothing runs."""

from typing import ClassVar

from typing_extensions import override

from joulelab.governor.strategy import Situation, Strategy, least_allowed


class RaceToIdle(Strategy):
    """Leaves work to the driver's own clock, and takes the cheapest one while nothing runs."""

    name: ClassVar = "race-to-idle"

    @override
    def choose(self, situation: Situation) -> int:
        if not situation.phase.is_idle:
            return 0
        return least_allowed(situation.costs_j(), situation.allowed)
