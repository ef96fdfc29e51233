"""A traced program: its operators in order, their values, the memory it held, and named regions.

Plain values without tensors. They are counted by :mod:`joulelab.tracing.trace`, and
everything else of the estimator works on them alone.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from joulelab.core.cost import Pipe
from joulelab.errors import ConfigError

Kind = Literal[
    "gemm", "conv", "attention", "norm", "softmax", "reduction", "gather", "copy", "elementwise"
]
"""What a kernel computes; becomes the name of its :class:`joulelab.core.cost.KernelCost`."""

MATRIX_KINDS: tuple[Kind, ...] = ("gemm", "conv", "attention")
"""Kinds that run on matrix units, and whose operators need a formula each."""

ALL_REDUCE = "all_reduce"
"""Name of the operator that sums a value over all devices and gives every one the result."""

WAITING = "waiting"
"""Name of what a device does in such a sum until the last of the others has come to it."""

LINKS_AWAKE = "links awake"
"""Name of what links to other devices draw from one such sum to the next, whatever is sent."""

Layout = Literal["plain", "strided", "channels_last", "masked"]
"""How a kernel finds its operands, where that decides which kernel it is.

``"plain"`` operands lie as the result does. Those of an elementwise kernel are ``"strided"`` where
one is repeated along an axis or lies in another order, those of a concatenation where one has gaps:
offsets are then computed element by element. Images that are convolved, normalised, reduced or
concatenated may come ``"channels_last"``, and attention ``"masked"``: with scores to be added.
"""

Stage = Literal["forward", "backward", "optimizer"]
"""Which part of a step an operator belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixShape:
    """Matrix work as ``batch`` products of (m, k) with (k, n); a convolution as implicit GEMM."""

    # Independent products: of a batched product, of a grouped convolution's groups, of attention's
    # heads times its batch.
    batch: int
    # Rows of the result; output positions times batch of a convolution, queries of attention.
    m: int
    n: int  # columns of the result; output channels per group, keys of attention
    k: int  # length of each dot product; input channels per group times kernel size, head size
    window: int = 1  # elements of a convolution's window, one channel; 1 of other work
    pixels: int = 0  # positions in one result of a convolution; 0 of other work, or where not known
    gates: int = 1  # columns of the result for each cell of a recurrent layer; 1 of other work


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator call: one kernel launch of eager PyTorch."""

    name: str  # the operator's name, e.g. "addmm"
    kind: Kind  # what its kernel computes
    module: str = ""  # dotted path of the module that called it; empty outside of any
    # Number format of its floating-point operands, e.g. "bfloat16"; of its first operand where none
    # is floating.
    dtype: str = "float32"
    pipe: Pipe = "fp32"  # where its operations run in the format it was traced in
    flop: float  # operations; a fused multiply-add counts two. >= 0
    read_b: float  # bytes of activations read, >= 0
    weight_b: float  # bytes of parameters read, >= 0
    written_b: float  # bytes written, >= 0
    shape: MatrixShape | None = None  # of matrix work; None for other kinds
    # Identifiers of the values read, parameters excluded. A value has a new identifier at each
    # write, so work in place shows as a value read and another one written.
    inputs: tuple[int, ...] = ()
    # Bytes read of each of them; they sum to read_b. 0 where a write in place leaves a part of the
    # value and reads nothing.
    inputs_b: tuple[float, ...] = ()
    outputs: tuple[int, ...] = ()  # identifiers of the values written
    outputs_b: tuple[float, ...] = ()  # bytes written of each of them; they sum to written_b
    # Loads that each thread makes one after the other where rows are too few to share the work out
    # further; 0 of other kernels.
    steps: float = 0.0
    layout: Layout = "plain"
    contiguous: float = 1.0  # share of the bytes whose innermost stride is one element, 0..1
    stage: Stage = "forward"  # part of the step
    has_formula: bool = True  # whether its operations are known; if not, flop is 0
    # Calls of operators since the last kernel that launch none: views, allocation.
    calls_before: int = 0

    @property
    def moved_b(self) -> float:
        """Bytes read and written."""
        return self.read_b + self.weight_b + self.written_b


def main_operator(operators: Sequence[Operator]) -> int:
    """Return the position of the operator that names a group: most work, matrix work first."""
    return max(
        range(len(operators)),
        key=lambda i: (operators[i].shape is not None, operators[i].flop, operators[i].moved_b),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One execution of a traced program."""

    operators: tuple[Operator, ...]  # in the order of their calls
    parameter_b: float  # bytes of all parameters and buffers
    # Bytes of the inputs and of the state that is passed in, such as a KV cache; the optimizer's
    # state excluded.
    input_b: float = 0.0
    # Bytes of values alive after each operator that were made in the program: activations, and
    # gradients of a training step. One entry per operator. What was passed in and is freed in the
    # program, such as a cache that it replaces, is subtracted, so that input_b and this together
    # are what is held.
    live_b: tuple[float, ...] = ()
    # Most bytes alive at any moment, values inside an operator call included.
    peak_live_b: float = 0.0
    kv_b: float = 0.0  # share of input_b that is key-value cache
    optimizer_b: float = 0.0  # bytes of optimizer state
    gradient_b: float = 0.0  # bytes of the parameters' gradients, contained in peak_live_b
    # Number format whose matrix work this is already; empty where it is as traced.
    precision: str = ""

    @property
    def flop(self) -> float:
        """Operations of one execution."""
        return sum(operator.flop for operator in self.operators)

    @property
    def held_b(self) -> float:
        """Bytes of all that is held at the moment of most."""
        return self.parameter_b + self.input_b + self.optimizer_b + self.peak_live_b


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPhase:
    """A phase of a model's use: a program executed ``count`` times."""

    phase: str
    work: float  # units of work that all count executions do together, > 0
    program: Program  # what one execution does; its mean, where executions grow along the phase
    count: int = 1  # executions, >= 1
    host_calls: int = 0  # calls in Python of one execution; 0 where they were not counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedModel:
    """A model as traced at one batch size and precision."""

    name: str  # as the user asked for it, e.g. "resnet50"
    unit: str
    batch: int
    precision: str
    phases: tuple[ProgramPhase, ...]
    # Shapes of the inputs, for people: {"image": "8x3x224x224"}.
    inputs: Mapping[str, str] = field(default_factory=dict)


KV_CACHE = "KV cache"
"""Region of what writes keys and values into a cache."""

_MARK = "#"
_regions: ContextVar[tuple[str, ...]] = ContextVar("joulelab_regions", default=())


@contextmanager
def region(name: str) -> Generator[None]:
    """Name the work of a ``with`` block; attribution shows it as a component of its own.

    The innermost of several counts. Outside of an attribution one costs a microsecond. Raises
    ConfigError if the name, e.g. ``"attention"``, is empty or has a ``#``.
    """
    if not name or _MARK in name:
        raise ConfigError(f"A region's name must not be empty or have a {_MARK}, got {name!r}.")
    token = _regions.set((*_regions.get(), name))
    try:
        yield
    finally:
        _regions.reset(token)


def within_region(path: str) -> str:
    """Return the path of a module with the region around the present call, if there is one."""
    regions = _regions.get()
    return f"{path}{_MARK}{regions[-1]}" if regions else path


def region_of(path: str) -> str:
    """Return the region in a path of :func:`within_region`; empty if there is none."""
    return path.partition(_MARK)[2]
