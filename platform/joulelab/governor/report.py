"""What a governor does, a line each while it runs, and in the end what that saved."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from joulelab.core.device import board_words
from joulelab.core.point import OperatingPoint
from joulelab.errors import MeasurementError
from joulelab.governor.comparison import BRIEF_U, COUNTERS_U, Comparison, compare
from joulelab.governor.governor import Governor
from joulelab.governor.phase import Phase
from joulelab.governor.strategy import Rules
from joulelab.objectives import without_quality

UNSTEADY = (
    "The load never became steady: most of the time belongs to no phase, since phases are shorter "
    "than a look or no two are alike. It was left to the driver's own clock."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseReport:
    """A phase, and what was chosen for it."""

    name: str  # what its counters look like, and its number
    share: float  # share of the time
    point: OperatingPoint  # what was set for it last
    default_sm_clock_mhz: float | None  # SM clock that the driver chose; None if that was not seen
    default_power_w: float | None  # power there
    power_w: float | None  # power at the point; None if that was never in force long enough
    # Time of its work there over that at the driver's clock, less 1, by its counters; None if they
    # tell nothing of it.
    slowdown: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorReport:
    """What a governor did."""

    uuid: str
    gpu: str
    strategy: str
    rules: Rules
    duration_s: float
    # What that changed; None where reason says why it is not known.
    comparison: Comparison | None
    reason: str  # why not; empty if it is
    observing_only: str  # why nothing was set, or nothing more; empty if clocks were
    phases: tuple[PhaseReport, ...]  # what was recognised, the longest first
    num_changes: int  # how often the point was changed
    throttled_s: float  # time in which a power limit or heat held the clock down
    cpu_share: float  # share of one core that it took
    notes: tuple[str, ...]  # what else a reader must know


def report(governor: Governor) -> GovernorReport:
    """Return what a governor, which must have been stopped, did."""
    identity, rules = governor.device.identity(), governor.rules
    comparison, reason = _compared(governor)
    duration_s = governor.watched_s
    if governor.steadiness.is_unsteady:
        governor.notes.append(UNSTEADY)
    if governor.chooser.latencies is not None:
        governor.notes.append(governor.chooser.latencies.words)
    phases = sorted(governor.recogniser.phases, key=lambda each: -each.duration_s)
    return GovernorReport(
        uuid=identity.uuid,
        gpu=board_words(identity),
        strategy=governor.strategy.name,
        rules=rules,
        duration_s=duration_s,
        comparison=comparison,
        reason=reason,
        observing_only=governor.observing_only,
        phases=tuple(_phase_report(governor, phase, duration_s) for phase in phases),
        num_changes=governor.num_changes,
        throttled_s=governor.throttled_s,
        cpu_share=governor.cpu_s / duration_s if duration_s else 0.0,
        notes=tuple(governor.notes),
    )


def _compared(governor: Governor) -> tuple[Comparison | None, str]:
    """Return what governing changed, or why that is not known."""
    if not governor.rules.off_share:
        return None, (
            "No block was left to the driver, so there is nothing to compare with; give "
            "--off-share."
        )
    if not governor.num_changes:
        return None, "The point was never changed, so there is nothing to compare."
    try:
        objective = without_quality(governor.rules.objective)
        counters_u = BRIEF_U if governor.looking.were_brief else COUNTERS_U
        return compare(governor.schedule.blocks, objective, counters_u), ""
    except MeasurementError as error:
        return None, str(error)


def _phase_report(governor: Governor, phase: Phase, duration_s: float) -> PhaseReport:
    point = governor.chooser.chosen.get(phase.number, OperatingPoint())
    reference, there = phase.reference, phase.tallies.get(point)
    slowdown = None
    if phase.is_idle:
        slowdown = 0.0
    elif reference is not None and there is not None and phase.is_countable:
        slowdown = reference.speed.mean / there.speed.mean - 1.0
    return PhaseReport(
        name=phase.name,
        share=phase.duration_s / duration_s if duration_s else 0.0,
        point=point,
        default_sm_clock_mhz=None if reference is None else reference.sm_clock_mhz.mean,
        default_power_w=None if reference is None else reference.power_w.mean,
        power_w=None if there is None else there.power_w.mean,
        slowdown=slowdown,
    )


LOOK_S = 1.0
AGAIN_S = 15.0
"""What is set for a phase is reported anew no sooner: strategies try one point after the other."""


class Live:
    """Looks at a governor now and then, on its device's clock, and says what is new.

    It only reads what the governor keeps, so that no look at the GPU comes later. ``report`` is
    given one line at a time.
    """

    def __init__(self, governor: Governor, report: Callable[[str], object]) -> None:
        self._governor = governor
        self._report = report
        self._clock = governor.device.clock
        self._since_s = self._clock.now_s()
        self._reported: dict[int, tuple[float, OperatingPoint]] = {}
        self._states = ("", False, False)
        self._num_notes = 0

    def __enter__(self) -> Self:
        self._ticker = self._clock.every(LOOK_S, self.look)
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.stop()
        self.look()

    def look(self) -> None:
        """Say what is new since the last look."""
        now_s = self._clock.now_s()
        for line in (*self._news(now_s), *self._changes()):
            with suppress(OSError):  # whoever read may have gone, and governing goes on
                self._report(f"{now_s - self._since_s:6.0f} s  {line}")

    def _news(self, now_s: float) -> Iterator[str]:
        """Yield phases that are new, and what is set for others now."""
        governor = self._governor
        for phase in sorted(governor.recogniser.phases, key=lambda each: each.number):
            point = governor.chooser.chosen.get(phase.number, OperatingPoint())
            reported_s, before = self._reported.get(phase.number, (-AGAIN_S, None))
            if point != before and now_s - reported_s >= AGAIN_S:
                self._reported[phase.number] = now_s, point
                yield f"{phase.name}{_usual(phase)}: {point.label}"

    def _changes(self) -> Iterator[str]:
        """Yield what else has changed: whether anything may be set, and for how long it is not."""
        governor = self._governor
        notes = governor.notes[self._num_notes :]
        self._num_notes += len(notes)
        yield from notes
        was, self._states = self._states, _states(governor)
        for words, before, now in zip(_WORDS, was, self._states, strict=True):
            if bool(before) != bool(now):
                yield words[bool(now)].format(now)


_WORDS = (
    ("Clocks are set again.", "Nothing is set: {}"),
    ("The other process has gone.", "The driver's own clock is in force while others compute."),
    ("The load is steady again.", "The load is not steady: the driver's own clock is in force."),
)


def _states(governor: Governor) -> tuple[str, bool, bool]:
    return governor.observing_only, governor.has_company, governor.steadiness.is_unsteady


def _usual(phase: Phase) -> str:
    """Say what a phase takes at the driver's own clock, where that was seen."""
    reference = phase.reference
    if reference is None:
        return ""
    power_w, clock_mhz = reference.power_w.mean, reference.sm_clock_mhz.mean
    return f" ({power_w:.0f} W at the driver's {clock_mhz:.0f} MHz)"
