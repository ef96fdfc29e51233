"""What the estimator needs of a model, and of a source of models.

A source turns names into models; a model traces itself. Neither builds anything when it is
made: networks are built, without memory for their weights, only by :meth:`Model.trace`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import Pipe
from joulelab.tracing.program import Operator, ProgramPhase

Knobs = Mapping[str, KnobValue]
"""Values of a model's knobs by name, all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to trace of a model.

    Attributes:
        knobs: The model's knobs, those left out by the user at their default.
        precision: Number format of matrix work that the model applies itself; empty if it is
            applied to the trace.
        remedy: Change of the network that saves memory; empty for none.
    """

    batch: int
    dtype: str
    training: bool = False
    knobs: Knobs = field(default_factory=dict)
    precision: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The phases of one request in order, and the shapes of what went in, for people."""

    phases: tuple[ProgramPhase, ...]
    inputs: Mapping[str, str]


def as_float16(traced: Traced) -> Traced:
    """Return a trace in ``bfloat16`` as it would be in ``float16``.

    Both run the same operators on values of the same size, and are traced in ``bfloat16``: grouped
    products, of experts, exist in no other format.
    """
    phases = []
    for phase in traced.phases:
        operators = tuple(_operator_in_float16(each) for each in phase.program.operators)
        phases.append(replace(phase, program=replace(phase.program, operators=operators)))
    return replace(traced, phases=tuple(phases))


def _operator_in_float16(operator: Operator) -> Operator:
    if operator.dtype != "bfloat16":
        return operator
    pipe: Pipe = "tensor_fp16" if operator.pipe == "tensor_bf16" else operator.pipe
    return replace(operator, dtype="float16", pipe=pipe)


class Model(ABC):
    """One model that can be traced at any batch size and number format."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """What its work counts, in the singular: ``"image"``, ``"token"``."""

    @property
    @abstractmethod
    def knobs(self) -> Knobs:
        """What can be chosen besides batch and precision, with its default."""

    @abstractmethod
    def trace(self, request: Request) -> Traced:
        """Trace what ``request`` asks for; ConfigError, which says why, if it cannot be."""

    halves_alike: ClassVar[bool] = True
    """Whether it runs the same operators in both half-precision formats."""

    @property
    def quantises(self) -> bool:
        """Whether it applies fp8, int8 and int4 itself, to the layers that it would run so."""
        return False

    @property
    def sharding_plan(self) -> Mapping[str, str]:
        """How its modules are cut over several devices; empty if that is not known.

        Patterns of dotted module paths, ``*`` for any index, to ``"colwise"``, ``"rowwise"``,
        or ``"experts"`` for a module with a product cut by columns and then one by rows.
        """
        return {}

    def check_shards(self, num_devices: int) -> None:
        """Check that its heads and layers have ``num_devices`` equal parts; ConfigError if not."""


class Source(ABC):
    """Models that are found by name."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names that it lists, sorted; it may know more, of a pattern."""

    @abstractmethod
    def find(self, name: str) -> Model:
        """Return the model of a name without prefix; UnknownNameError if there is none."""
