"""Phases of a load: by what they are recognised, and what is known of each, point by point.

Operations and bytes of a phase keep their proportion at any clock, and their rates follow from
activity: of a unit that is clocked with the SMs by activity times clock, of the memory by activity
alone. So one and the same phase has one direction of rates; how long the vector is, is how fast the
work goes. This assumes that a phase is the same work throughout: where its batch grows, operations
per byte grow, and it becomes another phase.
"""

from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import Literal

from joulelab.core.point import OperatingPoint
from joulelab.governor.observing import Observation

Label = Literal["idle", "prefill", "decode", "light", "busy"]
"""What the counters of a phase look like: nothing runs; the units compute, as in a prefill; the
memory is busy, as in a decode; kernels run that do little of either, as in communication, or where
the host sets the pace. Where a driver counts no activity, something runs or nothing does."""

_FLOOR = 0.01
"""Rates below this share of all are taken for it: ratios of almost nothing say nothing."""
_IDLE_ENGINE, _IDLE_RATE = 0.03, 0.02
_LITTLE = 0.3
_TOLERANCE, _ENGINE_TOLERANCE = 0.3, 1.2
"""Of logarithms of ratios, and of log-odds of the engine's share, which moves with the clock."""


class Signature:
    """Rates of a window, over those of units that are always busy at the highest clock.

    Attributes:
        rates: Of operations of tensor units and of plain units, and of bytes of the memory.
        engine: Share of the time in which a kernel ran.
        is_idle: Whether next to nothing runs.
        is_countable: Whether the rates are high enough to tell how fast the work goes.
        log_ratios: Of operations to bytes, and of plain operations to those of tensor units.
        log_odds: Of the engine's share.
    """

    __slots__ = ("engine", "is_countable", "is_idle", "log_odds", "log_ratios", "rates")

    def __init__(self, tensor: float, plain: float, dram: float, engine: float) -> None:
        self.rates, self.engine = (tensor, plain, dram), engine
        most = max(self.rates)
        self.is_idle = engine < _IDLE_ENGINE and most < _IDLE_RATE
        self.is_countable = most >= 2 * _IDLE_RATE
        least = _FLOOR * max(tensor + plain + dram, _FLOOR)
        tensor, plain, dram = max(tensor, least), max(plain, least), max(dram, least)
        self.log_ratios = log((tensor + plain) / dram), log(plain / tensor)
        self.log_odds = _log_odds(engine)

    @classmethod
    def of(cls, seen: Observation, top_mhz: float) -> "Signature":
        """Return the signature of a window."""
        activity, ratio = seen.activity, seen.sm_clock_mhz / top_mhz
        plain = (activity.fp64_active or 0.0) + (activity.fp32_active or 0.0)
        plain += activity.fp16_active or 0.0
        tensor, dram = activity.tensor_active or 0.0, activity.dram_active or 0.0
        return cls(tensor * ratio, plain * ratio, dram, seen.engine_active)

    @property
    def label(self) -> Label:
        """What it looks like."""
        if self.is_idle:
            return "idle"
        if not self.is_countable:
            return "busy"
        *operations, dram = self.rates
        compute = max(operations)
        if compute < _LITTLE / 3 and dram < _LITTLE:
            return "light"
        return "prefill" if compute >= dram else "decode"

    def distance(self, other: "Signature") -> float:
        """Return how far two signatures are apart; up to 1 they may be of one phase."""
        if self.is_idle or other.is_idle:
            return 0.0 if self.is_idle == other.is_idle else 9.0
        (one, two), (its_one, its_two) = self.log_ratios, other.log_ratios
        ratios = max(abs(one - its_one), abs(two - its_two)) / _TOLERANCE
        return max(ratios, abs(self.log_odds - other.log_odds) / _ENGINE_TOLERANCE)

    def speed(self, reference: "Signature") -> float:
        """Return how fast the work goes, over how fast it went at ``reference``: a projection."""
        (tensor, plain, dram), (at_tensor, at_plain, at_dram) = self.rates, reference.rates
        dot = tensor * at_tensor + plain * at_plain + dram * at_dram
        return dot / (at_tensor**2 + at_plain**2 + at_dram**2)


def _log_odds(share: float) -> float:
    kept = min(max(share, 0.02), 0.98)
    return log(kept / (1 - kept))


LEAST_WINDOWS = 2.0
"""A point is known from so many windows on."""
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

    def add(self, value: float, kept: float, num: int = 1) -> None:
        """Take in the mean of ``num`` values; of those before the share ``kept`` still counts."""
        self.weight = self.weight * kept + num
        off = value - self.mean
        self.mean += num * off / self.weight
        self._squares = self._squares * kept + num * off * (value - self.mean)

    @property
    def relative_u(self) -> float:
        """Standard uncertainty of the mean, over the mean."""
        prior = _PRIOR_WORTH * (_PRIOR_SCATTER * self.mean) ** 2
        variance = (self._squares + prior) / (self.weight + _PRIOR_WORTH)
        return max(_LEAST_U, sqrt(variance / max(self.weight, 1.0)) / abs(self.mean))


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a phase did at one point."""

    # How fast its work went, over the phase's first window.
    speed: Average = field(default_factory=Average)
    power_w: Average = field(default_factory=Average)
    sm_clock_mhz: Average = field(default_factory=Average)
    last_s: float = float("-inf")

    @property
    def is_known(self) -> bool:
        """Whether it was seen often enough."""
        return self.speed.weight >= LEAST_WINDOWS

    def add(self, seen: Observation, speed: float) -> None:
        """Take in a window."""
        kept = exp(-(seen.stop_s - self.last_s) / MEMORY_S) if self.speed.weight else 0.0
        self.last_s = seen.stop_s
        self.speed.add(speed, kept, seen.num_looks)
        self.power_w.add(seen.power_w, kept, seen.num_looks)
        self.sm_clock_mhz.add(seen.sm_clock_mhz, kept, seen.num_looks)


DEFAULT = OperatingPoint()


class Phase:
    """One phase of a load, with the signature of its first windows, at the driver's own clock."""

    def __init__(self, number: int, signature: Signature) -> None:
        self.number = number
        self.signature = signature
        self.is_idle = signature.is_idle
        """Whether nothing runs in it, so that no clock makes it longer."""
        self.is_countable = signature.is_countable
        """Whether its counters tell how fast it goes."""
        self.tallies: dict[OperatingPoint, Tally] = {}
        self.reference: Tally | None = None
        """What it does at the driver's own clock; ``None`` until that was seen."""
        self.num_known = 0
        """At how many points it was seen often enough for them to be known."""
        self.num_windows = 0
        self.duration_s = 0.0
        self.is_capped = False
        """Whether a power limit holds its clock, at the driver's own point."""

    @property
    def name(self) -> str:
        """Label and number: ``"decode 2"``."""
        return f"{self.signature.label} {self.number}"

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
        tally = self.tallies.setdefault(point, Tally())
        self.num_known -= tally.is_known
        tally.add(seen, self.speed(signature))
        self.num_known += tally.is_known
        if point == DEFAULT:
            self.reference = tally

    def may_be(self, signature: Signature, least_clock_mhz: float) -> bool:
        """Whether a window could be of this phase: this work, this fast.

        Work cannot slow down by more than the lowest clock of the window does, nor go faster than
        at the driver's.
        """
        if signature.distance(self.signature) > 1.0:
            return False
        reference = self.reference
        if self.is_idle or reference is None or not self.is_countable:
            return True
        speed = self.speed(signature) / reference.speed.mean
        ratio = min(1.0, least_clock_mhz / reference.sm_clock_mhz.mean)
        return 0.85 * ratio <= speed <= 1.15


MOST_PHASES = 24
_ALIKE = 0.15
"""Two windows in a row whose work goes as fast to within this are of one new phase."""


class Recogniser:
    """Says which phase a window is of.

    A change point is a window that may not be of the phase before it: another proportion of
    operations and bytes, or a speed that the clock does not explain. A window in which the phase
    changed is mostly of neither, and then nobody's. A phase is new when two such windows in a row
    are alike, both at the driver's own clock, which everything else is compared with. ``top_mhz``
    is the highest SM clock.
    """

    def __init__(self, top_mhz: float) -> None:
        self._top_mhz = top_mhz
        self._before: Signature | None = None
        self._last: tuple[Observation | None, Signature] = None, Signature(0.0, 0.0, 0.0, 0.0)
        self._num_made = 0
        self.phases: list[Phase] = []
        """Those seen so far, the one seen last at the end."""

    def signature(self, seen: Observation) -> Signature:
        """Return by what a window is recognised."""
        if seen is not self._last[0]:
            self._last = seen, Signature.of(seen, self._top_mhz)
        return self._last[1]

    def recognise(self, seen: Observation, point: OperatingPoint) -> Phase | None:
        """Return the phase of a window, a new one if need be; ``None`` for one that is mixed.

        ``point`` was in force throughout.
        """
        signature = self.signature(seen)
        fits = [phase for phase in self.phases if phase.may_be(signature, seen.least_clock_mhz)]
        if fits:
            phase = fits[0]
            if len(fits) > 1:
                phase = min(fits, key=lambda each: signature.distance(each.signature))
            self._before = None
        elif (made := self._made(signature, seen, point)) is not None:
            phase = made
        else:
            return None
        self.phases.remove(phase)
        self.phases.append(phase)
        return phase

    def _made(self, signature: Signature, seen: Observation, point: OperatingPoint) -> Phase | None:
        before, self._before = self._before, signature
        if point != DEFAULT or not seen.is_settled:
            return None
        if signature.is_idle:
            return self._new(signature)
        if before is None or before.is_idle or signature.distance(before) > 1.0:
            return None
        if signature.is_countable and abs(signature.speed(before) - 1.0) > _ALIKE:
            return None
        return self._new(signature)

    def _new(self, signature: Signature) -> Phase:
        self._before = None
        self._num_made += 1
        phase = Phase(self._num_made, signature)
        self.phases.append(phase)
        if len(self.phases) > MOST_PHASES:
            del self.phases[0]
        return phase
