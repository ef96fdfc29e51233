"""One combination of a matrix of estimates: what was asked, and its answer or why there is none."""

from dataclasses import dataclass

from joulelab.estimator.estimate import Estimate
from joulelab.estimator.opportunities import Opportunity
from joulelab.hardware.processor import Processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A model on a processor in one precision at one batch size.

    Attributes:
        model: The model, as it was asked for.
        processor: The processor.
        precision: Number format.
        batch: Samples per execution.
        estimate: The answer; ``None`` if it cannot be given.
        problem: Why there is none, e.g. a precision that the processor lacks; else empty.
        opportunities: What would save energy, the largest saving first, if it was looked for.
    """

    model: str
    processor: Processor
    precision: str
    batch: int
    estimate: Estimate | None = None
    problem: str = ""
    opportunities: tuple[Opportunity, ...] = ()
