"""What one group of kernels asked of a processor, as far as its events depend on it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from joulelab.core.cost import Pipe
from joulelab.estimator.estimate import EnergySplit
from joulelab.tracing.precision import dtype_on, element_b
from joulelab.tracing.program import MATRIX_KINDS, Kind, MatrixShape, Operator

ACCUMULATOR_B = 4
"""Bytes of a partial sum: every matrix unit here adds up in 32 bits."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Matrix products of one shape on one pipe."""

    pipe: Pipe
    shape: MatrixShape
    # How often that shape is computed: runs of the group, times two products of attention or of a
    # backward convolution. So 2 batch m n k repeats is the number of operations that was traced.
    repeats: float

    @property
    def macs(self) -> float:
        """Multiply-adds."""
        shape = self.shape
        return float(shape.batch * shape.m * shape.n * shape.k) * self.repeats

    @property
    def flop(self) -> float:
        """Operations; a multiply-add counts two."""
        return 2.0 * self.macs

    @property
    def operand_b(self) -> int:
        """Bytes of an operand."""
        return int(element_b(dtype_on(self.pipe)))

    @property
    def on_matrix_units(self) -> bool:
        """Whether they run on matrix units, not on those for vectors."""
        return self.pipe.startswith("tensor_")

    @property
    def upright(self) -> "Product":
        """The same work with its longer side along the rows; the transpose if need be."""
        shape = self.shape
        long, short = max(shape.m, shape.n), min(shape.m, shape.n)
        return replace(self, shape=replace(shape, m=long, n=short))

    @property
    def result_elements(self) -> float:
        """Elements of all results."""
        return float(self.shape.batch * self.shape.m * self.shape.n) * self.repeats

    def blocks(self, m: int, n: int, k: int) -> float:
        """Return how many blocks of (m, n, k) cover all products."""
        shape = self.shape
        covered = ceil(shape.m / m) * ceil(shape.n / n) * ceil(shape.k / k)
        return float(shape.batch * covered) * self.repeats

    def fetched_elements(self, m: int, n: int) -> float:
        """Return the operand elements read when results are made in blocks of (m, n)."""
        shape = self.shape
        left = shape.m * shape.k * ceil(shape.n / n)
        right = shape.k * shape.n * ceil(shape.m / m)
        return float(shape.batch * (left + right)) * self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """All runs of one kernel, or of several fused into one."""

    kind: Kind
    # Of one run, each with the pipe on which this processor runs it.
    operators: tuple[Operator, ...]
    count: int  # runs, >= 1. All figures below are for all of them
    read_b: float
    weight_b: float
    written_b: float  # values written for others to read, >= 0
    moved_b: Mapping[str, float]  # bytes by name of the memory level, as far as they were predicted
    device_s: float
    wait_s: float
    clock_mhz: float
    waiting_mhz: float  # core clock while it waits
    energy: EnergySplit  # what was predicted, waiting included
    busy: float = 1.0  # share of the cores that work while it runs, by what they draw, 0..1
    # Share of the busy cores' energy that was predicted as compute, 0..1; the rest, of cores that
    # wait for data, as memory.
    core_share: float = 1.0

    @property
    def products(self) -> tuple[Product, ...]:
        """Its matrix products, of attention two; of unknown shape, cubes of as many operations."""
        matrix = [op for op in self.operators if op.kind in MATRIX_KINDS and op.flop > 0]
        return tuple(product for op in matrix for product in _products(op, self.count))

    @property
    def vector_flop(self) -> Mapping[Pipe, float]:
        """Operations outside of matrix products, by pipe."""
        flop: dict[Pipe, float] = {}
        for op in self.operators:
            if op.kind not in MATRIX_KINDS and op.flop > 0:
                flop[op.pipe] = flop.get(op.pipe, 0.0) + op.flop * self.count
        return flop

    @property
    def boundary_b(self) -> float:
        """Bytes that enter or leave the group."""
        return self.read_b + self.weight_b + self.written_b

    @property
    def stream_b(self) -> float:
        """Bytes that enter or leave the group, pass the units once and belong to no product."""
        matrix_b = sum(op.moved_b for op in self.operators if op.kind in MATRIX_KINDS)
        stream_b = self.boundary_b - matrix_b * self.count
        return stream_b if stream_b > _ROUNDING * self.boundary_b else 0.0

    @property
    def written_share(self) -> float:
        """Share of the bytes that are written, 0..1; 0 where none move."""
        return self.written_b / self.boundary_b if self.boundary_b > 0 else 0.0

    @property
    def contiguous(self) -> float:
        """Share of the bytes whose innermost stride is one element, 0..1; 1 where none move."""
        total_b = sum(operator.moved_b for operator in self.operators)
        if not total_b > 0:
            return 1.0
        return sum(op.contiguous * op.moved_b for op in self.operators) / total_b

    @property
    def element_b(self) -> float:
        """Bytes of an element of its widest operator by traffic."""
        widest = max(self.operators, key=lambda operator: operator.moved_b, default=None)
        return element_b(widest.dtype if widest else "float32")

    @property
    def cycles(self) -> float:
        """Core clock cycles on the device."""
        return self.device_s * self.clock_mhz * 1e6


def _products(operator: Operator, count: int) -> tuple[Product, ...]:
    shape = operator.shape
    if shape is None:
        edge = ceil((operator.flop / 2.0) ** (1.0 / 3.0))
        shape = MatrixShape(batch=1, m=edge, n=edge, k=edge)
    one = 2.0 * shape.batch * shape.m * shape.n * shape.k
    repeats = operator.flop / one * count
    if operator.kind != "attention":
        return (Product(pipe=operator.pipe, shape=shape, repeats=repeats),)
    weighted = replace(shape, n=shape.k, k=shape.n)
    return tuple(
        Product(pipe=operator.pipe, shape=half, repeats=repeats / 2.0) for half in (shape, weighted)
    )
