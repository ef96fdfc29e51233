"""Recognise phases: which one a window is of, and when a new one has begun."""

from joulelab.core.point import OperatingPoint
from joulelab.governor.observing import Observation
from joulelab.governor.phase import DEFAULT, Phase
from joulelab.governor.signature import Signature

MOST_PHASES = 24
_ALIKE = 0.15
"""Two windows in a row whose work goes as fast to within this are of one new phase."""


class Recogniser:
    """Says which phase a window is of.

    A change point is a window that may not be of the phase before it: another proportion of
    operations and bytes, or a speed that the clock does not explain. A window in which the phase
    changed is mostly of neither, and then nobody's. A phase is new when two such windows in a row
    are alike, both at the driver's own clock, which everything else is compared with.

    Args:
        top_mhz: The highest SM clock.
    """

    def __init__(self, top_mhz: float) -> None:
        self._top_mhz = top_mhz
        self._before: Signature | None = None
        self._num_made = 0
        self.phases: list[Phase] = []
        """Those seen so far, the one seen last at the end."""

    def signature(self, seen: Observation) -> Signature:
        """Return by what a window is recognised."""
        return Signature.of(seen, self._top_mhz)

    def recognise(self, seen: Observation, point: OperatingPoint) -> Phase | None:
        """Return the phase of a window, a new one if need be; ``None`` for one that is mixed.

        Args:
            seen: The window.
            point: What was in force throughout.
        """
        signature = self.signature(seen)
        fits = [phase for phase in self.phases if phase.may_be(signature, seen.sm_clock_mhz)]
        if fits:
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
        is_default = point == DEFAULT and seen.is_settled
        if signature.is_idle:
            return self._new(signature) if is_default else None
        if before is None or before.is_idle or not is_default or signature.distance(before) > 1.0:
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
