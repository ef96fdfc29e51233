"""Which points may be measured quickly, and after how long a warm-up."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from joulelab.core.clock import Clock
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.sampling.readiness import WarmUp

FOLLOWS_WITHIN_S = 30.0
"""Longest rest, such as loading weights, after which an idle window is not due anew; chosen."""


class Following:
    """Remembers what ran last on a board, and which settings of programs do not run evenly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ran: str | None = None  # the workload, if it was measured
        self._ended_s = -inf
        self._is_even: dict[str, bool] = {}  # by phase
        self._uneven: set[tuple[str, tuple[tuple[str, KnobValue], ...], str]] = set()

    def procedures(
        self, asked: Configuration, phases: Sequence[str], procedure: Procedure
    ) -> Iterator[tuple[Procedure, list[str]]]:
        """Yield how to measure which phases of ``asked``, and then how what is not final then."""
        key = asked.program
        even = [phase for phase in phases if (*key, phase) not in self._uneven]
        follows = self._ran == asked.workload or not procedure.idle_s
        if procedure.pace == "quick" and even and follows:
            yield procedure, even
        yield replace(procedure, pace="reference"), list(phases)

    def prepared(self, procedure: Procedure) -> Procedure:
        """Return how to measure what is ready now, after whatever rest that took the board."""
        self._is_even = {}
        rested_s = self._clock.now_s() - self._ended_s
        is_warm = rested_s <= FOLLOWS_WITHIN_S or not procedure.idle_s
        if procedure.pace == "quick" and is_warm:
            return procedure.following(rested_s)
        return replace(procedure, pace="reference")

    def next_phase(self, procedure: Procedure) -> Procedure:
        """Return how to measure the next phase of a program that has just run."""
        return procedure.following() if procedure.pace == "quick" else procedure

    def warmed_up(self, phase: str, warmup: WarmUp) -> None:
        """Note how the warm-up of a phase ended."""
        self._is_even[phase] = warmup.even

    def ended(self, asked: Configuration, records: Sequence[Record]) -> None:
        """Note that ``asked`` has just run; phases that were not even are not tried quickly again.

        One whose temperature alone still moved was even all the same.
        """
        has_run = all(record.measurement.windows for record in records)
        self._ran = asked.workload if has_run else None
        self._ended_s = self._clock.now_s()
        for phase, is_even in self._is_even.items():
            note = self._uneven.discard if is_even else self._uneven.add
            note((*asked.program, phase))


def is_final(record: Record) -> bool:
    """Whether a measurement need not be made again from rest."""
    return not why_again(record)


def why_again(record: Record) -> str:
    """Say why a measurement is made again from rest; nothing if it need not be."""
    measurement = record.measurement
    if measurement.pace != "quick" or not measurement.windows:
        return ""
    if not measurement.settled:
        return measurement.reason
    if measurement.observed.warmup_steady is False:
        return f"power or pace was not even after {measurement.observed.warmup_s:.1f} s"
    return ""
