"""What a strategy is asked, and what it may answer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from joulelab.core.point import OperatingPoint
from joulelab.governor.loads import SimulatedLoad
from joulelab.governor.outlook import Curves
from joulelab.governor.phase import Phase
from joulelab.governor.rules import Rules

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

    A strategy is asked after every look while a phase is known, and answers with a position in the
    curves of the situation. What is not allowed is not set, whatever it answers.
    """

    name: ClassVar[str]
    needs_load: ClassVar[bool] = False
    """Whether it must know what a simulated GPU plays."""

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
