"""Which points may be measured quickly: those right after another point of the same program."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from joulelab.core.clock import Clock
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.sampling.readiness import WarmUp

FOLLOWS_WITHIN_S = 2.0
"""Longest rest after which a board still counts as warm; chosen, not measured."""


class Following:
    """Remembers what ran last on a board."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ran: Configuration | None = None
        self._ended_s = 0.0
        self._is_even = True

    def procedures(self, asked: Configuration, procedure: Procedure) -> Iterator[Procedure]:
        """Yield how to measure ``asked``, and then how to measure it again."""
        if procedure.pace == "quick" and self._is_warm(asked):
            self._is_even = True
            yield procedure.following()
        self._is_even = True
        yield replace(procedure, pace="reference")

    def warmed_up(self, warmup: WarmUp) -> None:
        """Note how the warm-up of a phase ended."""
        self._is_even &= warmup.even

    def ended(self, configuration: Configuration, records: Sequence[Record]) -> None:
        """Note that ``configuration`` has just run; after one that was not even nothing is quick.

        One whose temperature alone still moved was loaded all the same.
        """
        has_run = self._is_even and all(record.measurement.windows for record in records)
        self._ran = configuration if has_run else None
        self._ended_s = self._clock.now_s()

    def _is_warm(self, asked: Configuration) -> bool:
        ran = self._ran
        if ran is None or self._clock.now_s() - self._ended_s > FOLLOWS_WITHIN_S:
            return False
        return (ran.workload, ran.knobs) == (asked.workload, asked.knobs)


def is_final(record: Record) -> bool:
    """Whether a quick measurement need not be made again from rest."""
    measurement = record.measurement
    return (measurement.settled and _is_steady(record)) or not measurement.windows


def _is_steady(record: Record) -> bool:
    return record.measurement.observed.warmup_steady is not False
