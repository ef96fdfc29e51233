"""Whether models fit a device's memory, and the largest batch that does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from joulelab.estimator.api import Progress, Tracer
from joulelab.estimator.estimate import MemoryEstimate
from joulelab.estimator.precision import at_precision
from joulelab.estimator.pricing.memory import largest_batch, memory
from joulelab.estimator.program import TracedModel
from joulelab.estimator.question import Combination, Question
from joulelab.hardware.processor import Processor

_MAX_TRACES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The memory of a model at one precision and batch size on a device.

    Attributes:
        model: The model.
        processor: The device.
        precision: Number format.
        batch: Samples per execution.
        phases: Memory of each phase, by name.
        largest_batch: Largest batch that fits; 0 if none does, ``None`` if memory sets no limit
            or it was not asked for.
    """

    model: str
    processor: Processor
    precision: str
    batch: int
    phases: dict[str, MemoryEstimate]
    largest_batch: int | None = None

    @property
    def worst(self) -> MemoryEstimate:
        """Memory of the phase that needs most."""
        return max(self.phases.values(), key=lambda found: found.peak_b)


def fits(question: Question, *, progress: Progress, limits: bool = True) -> tuple[Fit, ...]:
    """Return the memory of every combination of ``question``.

    Args:
        question: What is asked.
        progress: Is told what is being traced.
        limits: Whether to look for the largest batch that fits, which needs some more traces.

    Raises:
        ConfigError: If a model cannot be traced, or a device lacks a precision.
    """
    return tuple(_fits(question, Tracer(question, progress), limits=limits))


def _fits(question: Question, tracer: Tracer, *, limits: bool) -> Iterator[Fit]:
    most: dict[tuple[str, str, str], int | None] = {}
    for each in question.combinations():
        traced = tracer.of(each)
        key = (each.model, each.processor.key, each.precision)
        if limits and key not in most:
            most[key] = _largest(tracer, each)
        yield Fit(
            model=each.model,
            processor=each.processor,
            precision=each.precision,
            batch=each.batch,
            phases=_phases(traced, each.processor),
            largest_batch=most.get(key),
        )


def _phases(traced: TracedModel, processor: Processor) -> dict[str, MemoryEstimate]:
    return {
        phase.phase: memory(at_precision(phase.program, traced.precision), processor)
        for phase in traced.phases
    }


def _largest(tracer: Tracer, asked: Combination) -> int | None:
    """Extrapolate from two batches, and again from what was found, until a trace agrees.

    Memory is all but linear in the batch, so that the second guess is right as a rule.
    """

    def worst(batch: int) -> MemoryEstimate:
        found = _phases(tracer.of(replace(asked, batch=batch)), asked.processor)
        return max(found.values(), key=lambda one: one.peak_b)

    first, other = worst(1), 2
    guess = largest_batch(first, worst(2))
    for _ in range(_MAX_TRACES):
        if guess is None or guess <= 1 or guess == other:
            break
        other = guess
        guess = largest_batch(first, worst(other), batches=(1, other))
    return guess
