"""``joulelab memory``: what fits, and what would save memory."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from rich.text import Text

from joulelab.analysis.estimates.detail import fit_sentence, fits_table, hints_table, memory_table
from joulelab.analysis.estimates.export import SUFFIXES, Answer
from joulelab.analysis.estimates.wording import asked
from joulelab.analysis.table import Frame, check_target
from joulelab.cli.estimator.sweep import Answering
from joulelab.cli.terminal import progress
from joulelab.cli.words import check_limits, over
from joulelab.estimator.api import Fit, fits
from joulelab.estimator.savings import memory_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Answering):
    """Show the memory that models need: parts, timeline, and the largest batch that fits.

    Attributes:
        quick: Do not look for what would save memory, which needs some more traces.
        max_memory_b: Most memory of each device, for the exit code; by default all that it has.
    """

    quick: bool = False
    max_memory_b: float | None = None

    def run(self) -> int:
        """Trace, print and write; 1 if something does not fit, or is above the limit."""
        check_target(self.out, *SUFFIXES)
        limits = {"memory": self.max_memory_b}
        check_limits(limits)
        question = self.question()
        with progress() as report:
            found = fits(question, progress=report)
            is_one = len(found) == 1 and not self.quick
            hints = memory_hints(question, found[0], progress=report) if is_one else ()
        answer = Answer(
            content={
                "memory": [_fit_fields(fit) for fit in found],
                "hints": [asdict(hint) for hint in hints],
            },
            frame=Frame.of([row for fit in found for row in _fit_rows(fit)]),
            sentences=[fit_sentence(fit) for fit in found],
            tables=[fits_table(found), *([hints_table(hints)] if hints else [])],
        )
        phases = found[0].phases.items()
        in_full = [part for each in phases for part in (Text(), memory_table(*each))]
        below = [part for table in answer.tables[1:] for part in (Text(), table)]
        self.give(answer, answer.tables if len(found) > 1 else [*in_full, *below])
        above = [over({"memory": fit.worst.peak_b}, limits) for fit in found]
        for fit, reasons in zip(found, above, strict=True):
            for reason in reasons:
                print(f"{fit.model} on {fit.processor.key}: {reason}.", file=sys.stderr)
        return int(any(above) or not all(fit.worst.fits for fit in found))


def _fit_rows(fit: Fit) -> Iterator[Mapping[str, object]]:
    for phase, memory in fit.phases.items():
        parts = asdict(memory)
        del parts["timeline_b"]
        yield {
            **asked(fit),
            "phase": phase,
            **parts,
            "peak_b": memory.peak_b,
            "fits": int(memory.fits),
            "largest_batch": fit.largest_batch,
        }


def _fit_fields(fit: Fit) -> dict[str, object]:
    return {
        **asked(fit),
        "fits": fit.worst.fits,
        "peak_b": fit.worst.peak_b,
        "largest_batch": fit.largest_batch,
        "phases": {name: asdict(memory) for name, memory in fit.phases.items()},
    }
