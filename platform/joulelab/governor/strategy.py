"""What a governor is asked for; what a strategy of it is asked, and what it may answer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.governor.loads import SimulatedLoad
from joulelab.governor.outlook import Curves
from joulelab.governor.phase import Phase
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
        latency_limit_s: What 95 % of the latencies that the program reports must not exceed, in
            seconds; it decides where it allows less than ``max_slowdown``. ``None`` for no limit.
        knob: What is turned.
        off_share: Share of the time that is left to the driver, to compare with; 0 for none.
        block_s: Length of the blocks that are governed or left to the driver, in seconds.
        period_s: Time between looks, in seconds; NVML counts activity over no less than 0.1, so
            that looks at exactly that would come too early half of the time.
        cpu_budget: Share of one core that looking and choosing may take; beyond it activity and
            power are computed only where power or clock moves, and then looks are taken less often.
        fixed: Value of the knob for the strategy ``fixed``, in MHz or W.
        seed: Seed of the order of the blocks.
    """

    objective: str = "edp"
    max_slowdown: float = 0.05
    latency_limit_s: float | None = None
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
        if self.latency_limit_s is not None and not self.latency_limit_s > 0:
            raise ConfigError(f"latency_limit_s must be positive, got {self.latency_limit_s}.")
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


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Situation:
    """A phase that runs now, and what is expected of it at every point.

    The cost of a point is what a second of work at the driver's own clock takes there: energy, and
    time at the price of a second. That price makes the phases of one load add up: the product
    ``E^a T^b`` of a whole run is least where ``E_i + (b / a) P T_i`` is least in every phase, with
    ``P`` the mean power of the run.
    """

    now_s: float  # time on the device's clock
    phase: Phase
    curves: Curves
    # Whether a point keeps the slowdown within its limit; the driver's own always does.
    allowed: NDArray[np.bool_]
    price_w: float  # what a second costs, in joules
    # Seconds that are lost per second of the phase when another begins at the point's clock, until
    # it is recognised.
    wake_s: Array
    before: int  # position that was chosen for the phase last; 0 at first

    def costs_j(self, doubt: float = 0.0) -> Array:
        """Return the cost of each point, in joules, less so many standard deviations."""
        curves = self.curves
        power_w = curves.power_w * np.exp(-doubt * curves.cost_u)
        return np.asarray((curves.time + self.wake_s) * (power_w + self.price_w))


class Strategy(ABC):
    """Chooses points for phases.

    A strategy is asked after every look as a phase begins, twice a second once it has gone on for
    two, and whenever its curves are drawn anew. It answers with a position in the curves of the
    situation; what is not allowed is not set, whatever it answers.
    """

    name: ClassVar[str]
    needs_load: ClassVar[bool] = False
    """Whether it must know what a simulated GPU plays."""
    sets_held: ClassVar[bool] = False
    """Whether the driver's own point, where a power limit holds its clock, may be that clock."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    @abstractmethod
    def choose(self, situation: Situation) -> int:
        """Return the position of the point to be set; 0 is the driver's own."""

    def watch(self, load: SimulatedLoad) -> None:
        """Take note of what a simulated GPU plays; by default ignored."""

    def foresee(self) -> OperatingPoint | None:
        """Return the point for now where it is known without looking; ``None`` where it is not."""
        return None

    def note(self, phase: Phase, point: OperatingPoint, cost_j: float) -> None:
        """Take note of what a window at a point cost, per second of work; by default ignored.

        ``cost_j`` is as :meth:`Situation.costs_j` has it, without waking.
        """


def least_allowed(costs: Array, allowed: NDArray[np.bool_]) -> int:
    """Return the position of the least cost that is allowed."""
    return int(np.where(allowed, costs, np.inf).argmin())
