"""By what a phase is recognised, at whatever clock it runs.

Operations and bytes of a phase keep their proportion at any clock, and their rates follow from
activity: of a unit that is clocked with the SMs by activity times clock, of the memory by activity
alone. So one and the same phase has one direction of rates; how long the vector is, is how fast the
work goes. This assumes that a phase is the same work throughout: where its batch grows, operations
per byte grow, and it becomes another phase.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

from joulelab.governor.observing import Observation

Label = Literal["idle", "prefill", "decode", "communication", "busy"]
"""What the counters of a phase look like: nothing runs; the units compute, as in a prefill; the
memory is busy, as in a decode; kernels run that do little of either, as in communication. Where a
driver counts no activity, something runs or nothing does."""

_FLOOR = 0.01
"""Rates below this share of all are taken for it: ratios of almost nothing say nothing."""
_IDLE_ENGINE, _IDLE_RATE = 0.03, 0.02
_LITTLE = 0.3
_TOLERANCE, _ENGINE_TOLERANCE = 0.3, 1.2
"""Of logarithms of ratios, and of log-odds of the engine's share, which moves with the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Rates of a window, over those of units that are always busy at the highest clock.

    Attributes:
        tensor: Of operations of tensor units.
        plain: Of operations of plain units.
        dram: Of bytes of the memory.
        engine: Share of the time in which a kernel ran.
    """

    tensor: float
    plain: float
    dram: float
    engine: float

    @classmethod
    def of(cls, seen: Observation, top_mhz: float) -> "Signature":
        """Return the signature of a window."""
        activity, ratio = seen.activity, seen.sm_clock_mhz / top_mhz
        plain = [activity.fp64_active, activity.fp32_active, activity.fp16_active]
        return cls(
            tensor=(activity.tensor_active or 0.0) * ratio,
            plain=sum(each or 0.0 for each in plain) * ratio,
            dram=activity.dram_active or 0.0,
            engine=seen.engine_active,
        )

    @property
    def rates(self) -> tuple[float, float, float]:
        """Rates of tensor units, plain units and memory."""
        return self.tensor, self.plain, self.dram

    @property
    def is_idle(self) -> bool:
        """Whether next to nothing runs."""
        return self.engine < _IDLE_ENGINE and max(self.rates) < _IDLE_RATE

    @property
    def is_countable(self) -> bool:
        """Whether the rates are high enough to tell how fast the work goes."""
        return max(self.rates) >= 2 * _IDLE_RATE

    @property
    def label(self) -> Label:
        """What it looks like."""
        if self.is_idle:
            return "idle"
        if not self.is_countable:
            return "busy"
        compute = max(self.tensor, self.plain)
        if compute < _LITTLE / 3 and self.dram < _LITTLE:
            return "communication"
        return "prefill" if compute >= self.dram else "decode"

    def distance(self, other: "Signature") -> float:
        """Return how far two signatures are apart; up to 1 they may be of one phase."""
        if self.is_idle or other.is_idle:
            return 0.0 if self.is_idle == other.is_idle else 9.0
        pairs = zip(_log_ratios(self), _log_ratios(other), strict=True)
        ratios = max(abs(one - two) for one, two in pairs) / _TOLERANCE
        engine = abs(_log_odds(self.engine) - _log_odds(other.engine)) / _ENGINE_TOLERANCE
        return max(ratios, engine)

    def speed(self, reference: "Signature") -> float:
        """Return how fast the work goes, over how fast it went at ``reference``: a projection."""
        length = sqrt(sum(each**2 for each in reference.rates))
        dot = sum(a * b for a, b in zip(self.rates, reference.rates, strict=True))
        return dot / length**2


def _log_ratios(signature: Signature) -> tuple[float, float]:
    """Logarithms of operations per byte, and of plain ones per one of tensor units."""
    least = _FLOOR * max(sum(signature.rates), _FLOOR)
    tensor, plain, dram = (max(rate, least) for rate in signature.rates)
    return log((tensor + plain) / dram), log(plain / tensor)


def _log_odds(share: float) -> float:
    kept = min(max(share, 0.02), 0.98)
    return log(kept / (1 - kept))
