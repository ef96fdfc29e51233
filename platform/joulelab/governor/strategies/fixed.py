"""One point for all that runs."""

from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.governor.rules import Rules
from joulelab.governor.strategy import Situation, Strategy


class Fixed(Strategy):
    """Sets one clock or power limit in every phase, or the lowest above it that is allowed."""

    name: ClassVar = "fixed"

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        if rules.fixed is None:
            raise ConfigError(
                "The strategy fixed needs the value to set, in MHz of an SM clock or W of a power "
                "limit (--fixed 1410)."
            )
        self._value = rules.fixed

    @override
    def choose(self, situation: Situation) -> int:
        points = situation.curves.points
        values = [point.sm_clock_mhz or point.power_limit_w or np.inf for point in points]
        high = [k for k, value in enumerate(values) if value >= self._value]
        return max(k for k in high if situation.allowed[k])
