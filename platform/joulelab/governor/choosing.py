"""From a phase that is known to the point that is set for it, within the slowdown limit."""

from collections import defaultdict
from collections.abc import Mapping
from math import inf

import numpy as np

from joulelab.core.point import OperatingPoint
from joulelab.devices.base import Device, check_point
from joulelab.governor.account import Account
from joulelab.governor.latency import Latencies
from joulelab.governor.law import BoardFigures
from joulelab.governor.outlook import Curves, Outlook, candidate_points, merged_time
from joulelab.governor.phase import DEFAULT, Phase
from joulelab.governor.strategy import Array, Rules, Situation, Strategy
from joulelab.hardware import spec_for

REACTION_S = 0.2
"""From the begin of a phase until its clock is in force: a window that is mixed, one that is not,
the setter's call, and the clock's own latency."""
ANTICIPATED_S = 0.1
"""The same where the phase was expected, so that a window that is mixed suffices."""
_FEWEST_ENDS, _NEARLY_ALWAYS = 4, 0.8
_UNSEEN = 0.5
"""An end of a phase that was not seen to end counts as half of one, with the worst to follow."""


class Transitions:
    """Counts ends of phases.

    Of what was never seen to end, half an end is assumed for all the time that it was seen: so
    waiting at a low clock begins once the load is known.
    """

    def __init__(self) -> None:
        self._followed: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._before: Phase | None = None
        self._lost: tuple[tuple[object, ...], Array] = (), np.zeros(0)

    def note(self, phase: Phase) -> None:
        """Take note of what runs now."""
        if self._before is not None and self._before is not phase:
            self._followed[self._before.number][phase.number] += 1
        self._before = phase

    def are_short(self, phase: Phase) -> bool:
        """Whether a phase, which was seen to end, ends too soon for a look within it."""
        ends = sum(self._followed[phase.number].values())
        return ends > 0 and phase.duration_s < SHORT_S * ends

    def next_number(self) -> int | None:
        """Return the number of the phase that nearly always follows the present one, if any."""
        return None if self._before is None else self._follower(self._before.number)

    def wake_s(self, phase: Phase, curves: Curves, known: Mapping[int, Curves | None]) -> Array:
        """Return seconds that are lost per second of ``phase``, at each point of its curves.

        ``known`` is what is expected of all phases, by their numbers.
        """
        followed = self._followed[phase.number]
        key = curves, *followed.items(), *map(known.get, followed)
        if self._lost[0] != key:
            self._lost = key, self._lost_s(phase, curves, known)
        return np.asarray(self._lost[1] / max(phase.duration_s, REACTION_S))

    def _lost_s(self, phase: Phase, curves: Curves, known: Mapping[int, Curves | None]) -> Array:
        clocks_mhz = curves.sm_clock_mhz
        lost = _UNSEEN * REACTION_S * _lost_share(clocks_mhz[0] / clocks_mhz)
        anticipated = self._follower(phase.number)
        for number, count in self._followed[phase.number].items():
            if number in known:
                reaction_s = ANTICIPATED_S if number == anticipated else REACTION_S
                lost += count * reaction_s * _lost_share(merged_time(known[number], clocks_mhz))
        return np.asarray(lost)

    def _follower(self, of_number: int) -> int | None:
        followed = self._followed[of_number]
        total = sum(followed.values())
        number = max(followed, key=lambda each: followed[each], default=None)
        if number is None or total < _FEWEST_ENDS or followed[number] < _NEARLY_ALWAYS * total:
            return None
        return number


def _lost_share(time: Array) -> Array:
    """Return which share of the time is lost where work takes ``time`` times as long."""
    return np.asarray(1.0 - 1.0 / np.maximum(time, 1.0))


REFERENCE_AGE_S, OLDEST_REFERENCE_S = 60.0, 240.0
"""After so long the driver's own point is looked at again: boards warm up and programs change."""
_OWN_S = 40.0
"""Not before a phase ran for so long since, of which a look takes up to a hundredth."""
_FRESH_S = 0.5
_BEGUN_S = 0.5
SHORT_S = 2.0
"""A look takes half a second, within which shorter phases may end: one is left to the driver
from begin to end."""
_WAKING_SHARE = 0.35
"""Share of the slowdown limit that may be lost by the ends of one phase."""
_RENEW_S, _RENEW_SHARE, _RENEW_LATEST_S = 1.0, 0.05, 5.0
"""Curves are drawn anew after a twentieth of the time that a phase was seen, within these two."""
_CHOICE_SHARE, _CHOICE_S = 0.25, 0.5
"""A choice stands for a quarter of the time that the phase has gone on, but no longer than that."""
_OPEN = 0.005
"""What counters leave open of a phase's time, so that it is not known to break the limit."""
_STAY_S = 10.0
"""What the last minute spared is spent for so long at a time."""


class Chooser:
    """Asks a strategy about the phase that runs, with what is expected of it."""

    def __init__(
        self, rules: Rules, strategy: Strategy, outlook: Outlook, account: Account
    ) -> None:
        self._rules = rules
        self._strategy = strategy
        self._outlook = outlook
        self._account = account
        self.transitions = Transitions()
        self._price_exponent = rules.price_exponent
        limit_s = rules.latency_limit_s
        self.latencies = None if limit_s is None else Latencies(limit_s)
        self._curves: dict[int, tuple[float, int, Curves | None]] = {}
        self._stands: tuple[Curves | None, float] = None, 0.0
        self.chosen: dict[int, OperatingPoint] = {}
        """What was chosen last for each phase, by its number."""
        self._renewing_s: float | None = None
        self._slowdowns: dict[int, tuple[float, float]] = {}
        self._last: Phase | None = None
        self._begun_s = 0.0

    def choose(self, phase: Phase, phases: list[Phase], now_s: float) -> OperatingPoint:
        """Return the point for ``phase``: the driver's own while anything is unsure."""
        if phase is not self._last:
            self._last, self._begun_s, self._renewing_s = phase, now_s, None
            self._stands = None, 0.0
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
        if curves is not None and point in curves.places and speed > 0:
            cost_j = (power_w + self._price_w(power_w)) / speed
            self._strategy.note(phase, point, cost_j)

    def expected_speed(self, phase: Phase, sm_clock_mhz: float, *, now: float) -> float:
        """Return how fast a phase goes at a clock, over the driver's own; ``now`` if unknown."""
        curves = self._kept(phase)
        if curves is None:
            return now
        return 1.0 / float(curves.time_at(np.array([sm_clock_mhz]))[0])

    def _choose(self, phase: Phase, phases: list[Phase], now_s: float) -> OperatingPoint:
        curves, is_stale = self._expected(phase, now_s), self._is_stale(phase, phases, now_s)
        account, limit = self._account, self._limit(now_s)
        if curves is None or is_stale or (account.is_long_enough and account.slowdown > limit):
            self._stands = None, 0.0
            return DEFAULT
        if self._stands[0] is curves and now_s < self._stands[1]:
            return self.chosen[phase.number]
        self._stands = curves, now_s + min(_CHOICE_SHARE * (now_s - self._begun_s), _CHOICE_S)
        return self._asked(phase, phases, curves, limit, now_s)

    def _asked(
        self, phase: Phase, phases: list[Phase], curves: Curves, limit: float, now_s: float
    ) -> OperatingPoint:
        """Return what the strategy chooses, within the slowdown limit."""
        known = {each.number: self._kept(each) for each in phases}
        wake_s = self.transitions.wake_s(phase, curves, known)
        before = self.chosen.get(phase.number, DEFAULT)
        allowed = self._allowed(phase, curves, limit, now_s)
        allowed &= _share(phase, phases) * wake_s <= _WAKING_SHARE * limit
        allowed[0] = True
        situation = Situation(
            now_s=now_s,
            phase=phase,
            curves=curves,
            allowed=allowed,
            price_w=self._price_w(float(curves.power_w[0])),
            wake_s=wake_s,
            before=curves.places.get(before, 0),
        )
        position = self._strategy.choose(situation)
        point = curves.points[position if allowed[position] else 0]
        is_held = self._strategy.sets_held and point == DEFAULT and len(phases) > 1
        return self._outlook.held(phase) if is_held else point

    def _limit(self, now_s: float) -> float:
        """Return by how much the load may be slower than at the driver's own clocks."""
        limit = self._rules.max_slowdown
        if self.latencies is None:
            return limit
        return min(limit, self.latencies.room(now_s, self._account.slowdown))

    def _allowed(
        self, phase: Phase, curves: Curves, limit: float, now_s: float
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return at which points the limit is kept, but for what is lost as the phase ends.

        The phase is expected to keep it, and all of the load does so with 95 % probability: at that
        point throughout, or for now, by what the last minute has spared.
        """
        of_work, beside = self._account.beside(phase.number)
        throughout = of_work * (curves.time_upper - 1.0) <= limit - beside
        doubt = of_work * (curves.time_upper - curves.time)
        for_now = self._slowdown(phase, now_s) + doubt <= limit
        return np.asarray((curves.time <= 1.0 + limit + _OPEN) & (throughout | for_now))

    def _slowdown(self, phase: Phase, now_s: float) -> float:
        """Return the last minute's slowdown as it was a moment ago, so that clocks stay a while."""
        seen_s, slowdown = self._slowdowns.get(phase.number, (-inf, inf))
        if now_s - seen_s >= _STAY_S and self._account.is_long_enough:
            seen_s, slowdown = now_s, self._account.slowdown
            self._slowdowns[phase.number] = seen_s, slowdown
        return slowdown

    def _kept(self, phase: Phase) -> Curves | None:
        """Return what was expected of a phase when it ran last."""
        return self._curves.get(phase.number, (0.0, 0, None))[2]

    def _expected(self, phase: Phase, now_s: float) -> Curves | None:
        """Return the curves of a phase, which are drawn anew once there is more to go by."""
        kept, lasts_s = self._curves.get(phase.number), _RENEW_SHARE * phase.duration_s
        lasts_s = min(max(lasts_s, _RENEW_S), _RENEW_LATEST_S)
        if kept is None or kept[1] != phase.num_known or now_s - kept[0] > lasts_s:
            kept = now_s, phase.num_known, self._outlook.curves(phase)
            self._curves[phase.number] = kept
        return kept[2]

    def _is_stale(self, phase: Phase, phases: list[Phase], now_s: float) -> bool:
        """Whether the driver's own point was not seen for long; it is until it is fresh again."""
        reference = phase.reference
        if reference is None:
            return True
        age_s = now_s - reference.last_s
        if self._renewing_s is None and age_s <= REFERENCE_AGE_S:
            return False
        is_short = self.transitions.are_short(phase)
        if self._renewing_s is None:
            own_s = _OWN_S / _share(phase, phases)
            oldest_s = min(max(own_s, REFERENCE_AGE_S), OLDEST_REFERENCE_S)
            begun_s = now_s - self._begun_s
            # Not as the phase begins, which waits for its own clock, unless that is to be this one.
            if age_s > oldest_s and (not begun_s if is_short else begun_s >= _BEGUN_S):
                self._renewing_s = now_s
            return self._renewing_s is not None
        # Where a limit lowers the driver's clock: until it has.
        look_s = SHORT_S if is_short else _FRESH_S if phase.is_capped else 0.0
        if age_s < _FRESH_S and now_s - self._renewing_s >= look_s:
            self._renewing_s = None
        return self._renewing_s is not None

    def _price_w(self, own_w: float) -> float:
        mean_w = self._account.power_w
        return self._price_exponent * (own_w if mean_w is None else mean_w)


def _share(phase: Phase, phases: list[Phase]) -> float:
    """Return the share of the time that a phase, which was seen, has of that of all."""
    return phase.duration_s / max(sum(each.duration_s for each in phases), 1e-9)


def outlook_of(device: Device, rules: Rules) -> tuple[float, Outlook]:
    """Return the highest clock, and what is expected of phases on this board."""
    capabilities, spec = device.capabilities(), spec_for(device.identity().name)
    grid_mhz = capabilities.sm_clocks_mhz or (() if spec is None else spec.sm_clocks_mhz)
    if rules.fixed_point is not None:
        check_point(rules.fixed_point, capabilities)
    top_mhz = float(max(grid_mhz, default=device.read_brief_state().sm_clock_mhz))
    by_power = rules.knob == "power-limit"
    limits_w = capabilities.power_limits_w if by_power else None
    clocks_mhz = () if by_power else capabilities.sm_clocks_mhz
    points = candidate_points(clocks_mhz, limits_w, rules.fixed) if limits_w or clocks_mhz else ()
    return top_mhz, Outlook(BoardFigures.of(spec, top_mhz), points, grid_mhz or (int(top_mhz),))
