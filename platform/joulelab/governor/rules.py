"""What a governor is asked for."""

from dataclasses import dataclass
from typing import Literal, get_args

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.objectives import without_quality
from joulelab.registry import unknown_name

Knob = Literal["sm-clock", "power-limit"]
"""What a governor turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a governor is asked for, and within what it must stay.

    Attributes:
        objective: What is to be low: ``"edp"``, ``"ed2p"`` or ``"energy"``.
        max_slowdown: By how much the program may be slower than at the driver's own clocks, as a
            share of its time: 0.05 for 5 %.
        knob: What is turned.
        off_share: Share of the time that is left to the driver, to compare with; 0 for none.
        block_s: Length of the blocks that are governed or left to the driver, in seconds.
        period_s: Time between looks, in seconds; NVML counts activity over no less than 0.1, so
            that looks at exactly that would come too early half of the time.
        cpu_budget: Share of one core that looking and choosing may take; beyond it looks are
            taken half as often.
        fixed: Value of the knob for the strategy ``fixed``, in MHz or W.
        seed: Seed of the order of the blocks.
    """

    objective: str = "edp"
    max_slowdown: float = 0.05
    knob: Knob = "sm-clock"
    off_share: float = 0.25
    block_s: float = 10.0
    period_s: float = 0.105
    cpu_budget: float = 0.01
    fixed: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        objective = without_quality(self.objective)
        if not objective.energy_exponent:
            raise ConfigError(
                "A governor lowers what energy counts in: edp, ed2p or energy, got "
                f"{self.objective}; the driver's own clocks are the fastest."
            )
        if self.knob not in get_args(Knob):
            raise unknown_name("knob", self.knob, get_args(Knob))
        if not 0 <= self.max_slowdown < 1:
            raise ConfigError(
                f"max_slowdown must be a share from 0 to 1, got {self.max_slowdown}; 0.05 is 5 %."
            )
        if not 0 <= self.off_share <= 0.5:
            raise ConfigError(f"off_share must be within 0 and 0.5, got {self.off_share}.")
        if not (self.period_s >= 0.02 and self.block_s >= 20 * self.period_s):
            raise ConfigError(
                "period_s must be at least 0.02 and block_s twenty times that, got "
                f"{self.period_s} and {self.block_s}."
            )
        if not 0 < self.cpu_budget <= 1:
            raise ConfigError(f"cpu_budget must be within 0 and 1, got {self.cpu_budget}.")

    @property
    def fixed_point(self) -> OperatingPoint | None:
        """The point of :attr:`fixed`; ``None`` without one."""
        if self.fixed is None:
            return None
        if self.knob == "power-limit":
            return OperatingPoint(power_limit_w=self.fixed)
        return OperatingPoint(sm_clock_mhz=int(self.fixed))

    @property
    def price_exponent(self) -> float:
        """How much a second counts, over how much a joule does, relative to the run's totals."""
        objective = without_quality(self.objective)
        return objective.time_exponent / objective.energy_exponent
