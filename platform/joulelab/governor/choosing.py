"""From a phase that is known to the point that is set for it, within the slowdown limit."""

import numpy as np

from joulelab.core.point import OperatingPoint
from joulelab.governor.account import Account
from joulelab.governor.outlook import Curves, Outlook
from joulelab.governor.phase import DEFAULT, Phase
from joulelab.governor.rules import Rules
from joulelab.governor.strategy import Array, Situation, Strategy
from joulelab.governor.transitions import Transitions

REFERENCE_AGE_S = 60.0
"""After so long the driver's own point is looked at again: boards warm up and programs change."""
_FRESH_S = 0.5
_WAKING_SHARE = 0.35
"""Share of the slowdown limit that may be lost by the ends of one phase."""
_RENEW_S = 1.0


class Chooser:
    """Asks a strategy about the phase that runs, with what is expected of it.

    Args:
        rules: What is asked for.
        strategy: Who chooses.
        outlook: What is expected of phases.
        account: What was lost lately.
    """

    def __init__(
        self, rules: Rules, strategy: Strategy, outlook: Outlook, account: Account
    ) -> None:
        self._rules = rules
        self._strategy = strategy
        self._outlook = outlook
        self._account = account
        self.transitions = Transitions()
        self._curves: dict[int, tuple[float, int, Curves | None]] = {}
        self.chosen: dict[int, OperatingPoint] = {}
        """What was chosen last for each phase, by its number."""
        self._renewing: set[int] = set()

    def choose(self, phase: Phase, phases: list[Phase], now_s: float) -> OperatingPoint:
        """Return the point for ``phase``: the driver's own while anything is unsure."""
        point = self._choose(phase, phases, now_s)
        self.chosen[phase.number] = point
        return point

    def anticipated(self) -> OperatingPoint:
        """Return the point of the phase that nearly always follows, or the driver's own."""
        number = self.transitions.next_number()
        return DEFAULT if number is None else self.chosen.get(number, DEFAULT)

    def note(self, phase: Phase, point: OperatingPoint, speed: float, power_w: float) -> None:
        """Let the strategy know what a window at ``point`` cost."""
        curves = self._kept(phase)
        if curves is not None and point in curves.points and speed > 0:
            cost_j = (power_w + self._price_w(power_w)) / speed
            self._strategy.note(phase, point, cost_j)

    def expected_speed(self, phase: Phase, sm_clock_mhz: float, *, now: float) -> float:
        """Return how fast a phase goes at a clock, over the driver's own; ``now`` if unknown."""
        curves = self._kept(phase)
        if curves is None:
            return now
        return 1.0 / float(curves.time_at(np.array([sm_clock_mhz]))[0])

    def _choose(self, phase: Phase, phases: list[Phase], now_s: float) -> OperatingPoint:
        curves = self._expected(phase, now_s)
        if curves is None or self._is_stale(phase, now_s):
            return DEFAULT
        if self._account.is_long_enough and self._account.slowdown > self._rules.max_slowdown:
            return DEFAULT
        known = {each.number: self._kept(each) for each in phases}
        wake_s = self.transitions.wake_s(phase, curves, known)
        before = self.chosen.get(phase.number, DEFAULT)
        situation = Situation(
            now_s=now_s,
            phase=phase,
            curves=curves,
            allowed=self._allowed(phase, phases, curves, wake_s),
            price_w=self._price_w(float(curves.power_w[0])),
            wake_s=wake_s,
            before=curves.points.index(before) if before in curves.points else 0,
        )
        position = self._strategy.choose(situation)
        return curves.points[position if situation.allowed[position] else 0]

    def _allowed(
        self, phase: Phase, phases: list[Phase], curves: Curves, wake_s: Array
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return at which points the limit is kept, what waking takes of it taken off."""
        limit = self._rules.max_slowdown
        own = max(0.0, limit - self._account.waking)
        share = phase.duration_s / max(sum(each.duration_s for each in phases), 1e-9)
        allowed = curves.time_upper <= 1.0 + own
        allowed &= share * wake_s <= _WAKING_SHARE * limit
        allowed[0] = True
        return np.asarray(allowed)

    def _kept(self, phase: Phase) -> Curves | None:
        """Return what was expected of a phase when it ran last."""
        return self._curves.get(phase.number, (0.0, 0, None))[2]

    def _expected(self, phase: Phase, now_s: float) -> Curves | None:
        """Return the curves of a phase, which are drawn anew once there is more to go by."""
        kept = self._curves.get(phase.number)
        num_points = sum(tally.speed.weight >= 2 for tally in phase.tallies.values())
        if kept is None or kept[1] != num_points or now_s - kept[0] > _RENEW_S:
            kept = now_s, num_points, self._outlook.curves(phase)
            self._curves[phase.number] = kept
        return kept[2]

    def _is_stale(self, phase: Phase, now_s: float) -> bool:
        """Whether the driver's own point was not seen for long; it is until it is fresh again."""
        reference = phase.reference
        if reference is None:
            return True
        age_s, number = now_s - reference.last_s, phase.number
        if age_s > REFERENCE_AGE_S:
            self._renewing.add(number)
        elif age_s < _FRESH_S:
            self._renewing.discard(number)
        return number in self._renewing

    def _price_w(self, own_w: float) -> float:
        mean_w = self._account.power_w
        return self._rules.price_exponent * (own_w if mean_w is None else mean_w)
