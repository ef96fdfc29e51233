"""Say while a governor runs what it recognised and decided: a line each, and nothing twice."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

from joulelab.core.point import OperatingPoint
from joulelab.governor.governor import Governor
from joulelab.governor.phase import Phase

LOOK_S = 1.0
AGAIN_S = 15.0
"""What is set for a phase is told anew no sooner: strategies try one point after the other."""


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
