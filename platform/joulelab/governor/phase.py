"""What is known of one phase: how fast it goes and what it draws, point by point."""

from dataclasses import dataclass, field
from math import exp, sqrt

from joulelab.core.point import OperatingPoint
from joulelab.governor.observing import Observation
from joulelab.governor.signature import Label, Signature

MEMORY_S = 300.0
"""What was seen so long ago counts a third."""
_LEAST_U, _PRIOR_SCATTER, _PRIOR_WORTH = 0.002, 0.01, 4.0
"""A mean of windows is not surer than this; until there are some, they scatter by 1 %."""


@dataclass(slots=True, kw_only=True)
class Average:
    """Mean and scatter of a quantity over windows, of which old ones are forgotten."""

    weight: float = 0.0
    mean: float = 0.0
    _squares: float = 0.0

    def add(self, value: float, kept: float) -> None:
        """Take in a value; of what came before the share ``kept`` still counts."""
        self.weight = self.weight * kept + 1.0
        off = value - self.mean
        self.mean += off / self.weight
        self._squares = self._squares * kept + off * (value - self.mean)

    @property
    def relative_u(self) -> float:
        """Standard uncertainty of the mean, over the mean."""
        prior = _PRIOR_WORTH * (_PRIOR_SCATTER * self.mean) ** 2
        variance = (self._squares + prior) / (self.weight + _PRIOR_WORTH)
        return max(_LEAST_U, sqrt(variance / max(self.weight, 1.0)) / abs(self.mean))


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a phase did at one point.

    Attributes:
        speed: How fast its work went, over the phase's first window.
        power_w: Board power.
        sm_clock_mhz: Clock that was seen.
        last_s: When it was seen last.
    """

    speed: Average = field(default_factory=Average)
    power_w: Average = field(default_factory=Average)
    sm_clock_mhz: Average = field(default_factory=Average)
    last_s: float = float("-inf")

    def add(self, seen: Observation, speed: float) -> None:
        """Take in a window."""
        kept = exp(-(seen.stop_s - self.last_s) / MEMORY_S) if self.speed.weight else 0.0
        self.last_s = seen.stop_s
        self.speed.add(speed, kept)
        self.power_w.add(seen.power_w, kept)
        self.sm_clock_mhz.add(seen.sm_clock_mhz, kept)


DEFAULT = OperatingPoint()


class Phase:
    """One phase of a load.

    Args:
        number: Its number, from 1.
        signature: Of its first windows, at the driver's own clock.
    """

    def __init__(self, number: int, signature: Signature) -> None:
        self.number = number
        self.signature = signature
        self.tallies: dict[OperatingPoint, Tally] = {}
        self.num_windows = 0
        self.duration_s = 0.0

    @property
    def label(self) -> Label:
        """What its counters look like."""
        return self.signature.label

    @property
    def name(self) -> str:
        """Label and number: ``"decode 2"``."""
        return f"{self.label} {self.number}"

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs in it, so that no clock makes it longer."""
        return self.signature.is_idle

    @property
    def is_countable(self) -> bool:
        """Whether its counters tell how fast it goes."""
        return self.signature.is_countable

    @property
    def reference(self) -> Tally | None:
        """What it does at the driver's own clock; ``None`` until that was seen."""
        return self.tallies.get(DEFAULT)

    def speed(self, signature: Signature) -> float:
        """Return how fast a window goes, over the phase's first; 1 where nothing runs."""
        return 1.0 if self.is_idle else signature.speed(self.signature)

    def relative_speed(self, signature: Signature) -> float | None:
        """Return how fast a window goes, over the driver's own clock; ``None`` if unknown."""
        if self.is_idle:
            return 1.0
        if self.reference is None or not self.is_countable:
            return None
        return self.speed(signature) / self.reference.speed.mean

    def add(self, seen: Observation, signature: Signature, point: OperatingPoint) -> None:
        """Take in a window that was of this phase at ``point`` from begin to end."""
        self.tallies.setdefault(point, Tally()).add(seen, self.speed(signature))

    def may_be(self, signature: Signature, sm_clock_mhz: float) -> bool:
        """Whether a window could be of this phase: at this clock, this work, this fast.

        Work cannot slow down by more than the clock does, nor go faster than at the driver's.
        """
        if signature.distance(self.signature) > 1.0:
            return False
        reference = self.reference
        if self.is_idle or reference is None or not self.is_countable:
            return True
        speed = self.speed(signature) / reference.speed.mean
        ratio = min(1.0, sm_clock_mhz / reference.sm_clock_mhz.mean)
        return 0.85 * ratio <= speed <= 1.15
