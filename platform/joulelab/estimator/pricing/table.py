"""A program's groups in columns, each operator with the class of kernels that it runs like.

What prices groups is vectorised, and equal ones share a row. Within networks, kernels of one kind
differ by which library they come from and how they read: an affine normalisation over a batch
streams, one over a layer reduces every row first. Classes have efficiencies and least times of
their own, measured within networks (benchmarks/fit_networks.py); what has no class is priced by its
kind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from joulelab.tracing.fusion import Groups, Traffic, traffic
from joulelab.tracing.precision import element_b, is_depthwise
from joulelab.tracing.program import ALL_REDUCE, MatrixShape, Operator, Program, main_operator

FIRST_CONVOLUTION = "first_convolution"
GROUPED_CONVOLUTION = "grouped_convolution"
LAYER_NORM = "layer_norm"
PRODUCT = "product"
_NORMS = ("batch_norm", "layer_norm", "group_norm")
_REDUCING = ("native_layer_norm", "native_batch_norm", "native_batch_norm_backward")
_CONTIGUOUS = 0.9
_WIDE_WINDOW = 36
"""Elements of a window from which depthwise convolutions run a kernel of their own."""
_LEAST_K = 8
"""The k of the smallest matrix instructions of half precision: images have fewer colours."""
_FILLS = ("fill", "zero", "ones", "full", "arange", "new_zeros", "new_ones")


def kernel_class(operator: Operator, *, training: bool = False) -> str:
    """Return the class of ``operator``; its kind where it has none, or no name of PyTorch's."""
    if operator.name == operator.kind:
        return operator.kind
    found = _CLASSES[operator.kind](operator)
    if "_backward" in operator.name:
        return f"{found}_backward"
    return f"{found}_training" if training and found == "batch_norm" else found


def reduced_elements(operator: Operator) -> float:
    """Return how many elements a normalisation reduces to each statistic; 0 of other work.

    Over layers that is a row, over batches in training a channel of all images. Their kernels
    write statistics, or gradients of as many parameters, beside the result.
    """
    if operator.name not in _REDUCING or len(operator.outputs_b) < 3:
        return 0.0
    return operator.outputs_b[0] / operator.outputs_b[1]


def _convolution(operator: Operator) -> str:
    shape = operator.shape
    if is_depthwise(operator) and shape is not None:
        if shape.n > 1:
            return "thin_groups"
        return "depthwise_wide" if shape.window >= _WIDE_WINDOW else "depthwise_narrow"
    if shape is None or "backward" in operator.name:
        return "convolution"
    if shape.k / shape.window < _LEAST_K:
        return FIRST_CONVOLUTION
    return GROUPED_CONVOLUTION if shape.batch > 1 else "convolution"


def _product(operator: Operator) -> str:
    if "rnn" in operator.name:
        return "recurrent"
    return "batched_product" if "bmm" in operator.name else PRODUCT


def _copy(operator: Operator) -> str:
    name = operator.name
    if name == "cat":
        return "concatenation"
    if name.startswith(_FILLS):
        return "filling"
    return "rearrangement" if operator.contiguous < _CONTIGUOUS else "copying"


_CLASSES: Mapping[str, Callable[[Operator], str]] = {
    "conv": _convolution,
    "norm": lambda operator: next((norm for norm in _NORMS if norm in operator.name), "other_norm"),
    "copy": _copy,
    "gemm": _product,
    "reduction": lambda operator: "pooling" if "pool" in operator.name else "row_reduction",
    "elementwise": lambda operator: (
        "resizing" if operator.name.startswith("upsample") else "pointwise"
    ),
    "attention": lambda _: "fused_attention",
    "softmax": lambda _: "row_softmax",
    "gather": lambda _: "indexing",
}


Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """Shapes of matrix work in columns, as in :class:`joulelab.tracing.program.MatrixShape`."""

    batch: Array
    m: Array
    n: Array
    k: Array
    window: Array
    pixels: Array

    def at(self, rows: Index) -> "Shapes":
        """Return the shapes of ``rows``."""
        return Shapes(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTable:
    """One execution of a program, in rows of distinct work.

    An operator row is distinct in kind, format, operations, shape and what it reduces, a
    group row in its operator rows and its traffic.
    """

    operators: tuple[Operator, ...]  # one operator of each row, for what cannot be a column
    classes: tuple[str, ...]  # what each operator row runs like, as kernel_class says
    flop: Array
    element_b: Array  # bytes of one operand of each operator row
    shapes: Shapes  # shapes of the operator rows; ones where there is none
    has_shape: NDArray[np.bool_]  # whether the operator row is matrix work with a shape of its own
    member_group: Index  # group row of each membership
    member_row: Index  # operator row of each membership
    read_b: Array
    weight_b: Array
    written_b: Array  # what each group row writes
    reduced_b: Array  # bytes that each group row sums over all devices
    main: Index  # operator row that names each group row: its matrix work, else its largest
    sequence: Index  # group rows in the order in which they run
    parameter_b: float

    @property
    def num_rows(self) -> int:
        """Distinct groups."""
        return len(self.read_b)

    def per_group(self, per_operator: Array) -> Array:
        """Sum a column of operator rows over the members of each group row."""
        weights = per_operator[self.member_row]
        return np.bincount(self.member_group, weights, self.num_rows).astype(np.float64)


def tabulate(program: Program, groups: Groups) -> WorkTable:
    """Return the table of ``program`` run in ``groups`` of operators, each one kernel."""
    rows = _Rows(training=any(one.stage == "backward" for one in program.operators))
    operator_rows = [rows.operator(operator) for operator in program.operators]
    sequence = [
        rows.group([operator_rows[i] for i in members], moved)
        for members, moved in zip(groups, _traffic(program, groups), strict=True)
    ]
    return rows.table(sequence, program.parameter_b)


def _traffic(program: Program, groups: Groups) -> Sequence[Traffic]:
    if len(groups) == len(program.operators):  # unfused: nothing stays inside
        alone = [program.operators[index] for (index,) in groups]
        return [(one.read_b, one.weight_b, one.written_b) for one in alone]
    return traffic(program, groups)


class _Rows:
    """Distinct operators and groups, in order of first appearance."""

    def __init__(self, *, training: bool) -> None:
        self._training = training
        self._operators: dict[object, int] = {}
        self._kept: list[Operator] = []
        self._classes: list[str] = []
        self._groups: dict[tuple[tuple[int, ...], Traffic], int] = {}

    def operator(self, operator: Operator) -> int:
        found = kernel_class(operator, training=self._training)
        key = (
            found,
            operator.steps,
            reduced_elements(operator),
            *(operator.kind, operator.dtype, operator.pipe, operator.flop, operator.shape),
            *((operator.written_b,) if operator.name == ALL_REDUCE else ()),
        )
        row = self._operators.get(key)
        if row is None:
            row = self._operators[key] = len(self._kept)
            self._kept.append(operator)
            self._classes.append(found)
        return row

    def group(self, members: Sequence[int], moved: Traffic) -> int:
        return self._groups.setdefault((tuple(members), moved), len(self._groups))

    def table(self, sequence: Sequence[int], parameter_b: float) -> WorkTable:
        kept = self._kept
        moved = np.array([moved for _, moved in self._groups], dtype=float).reshape(-1, 3)
        members = [members for members, _ in self._groups]
        return WorkTable(
            operators=tuple(kept),
            classes=tuple(self._classes),
            flop=np.array([operator.flop for operator in kept]),
            element_b=np.array([element_b(operator.dtype) for operator in kept]),
            shapes=_shapes(kept),
            has_shape=np.array(
                [one.shape is not None and not is_depthwise(one) for one in kept], dtype=bool
            ),
            member_group=np.repeat(np.arange(len(members)), [len(group) for group in members]),
            member_row=np.array([row for group in members for row in group], dtype=np.intp),
            read_b=moved[:, 0],
            weight_b=moved[:, 1],
            written_b=moved[:, 2],
            reduced_b=np.array([self._reduced_b(group) for group in members]),
            main=np.array([self._main(group) for group in members], dtype=np.intp),
            sequence=np.array(sequence, dtype=np.intp),
            parameter_b=parameter_b,
        )

    def _reduced_b(self, members: tuple[int, ...]) -> float:
        operators = (self._kept[row] for row in members)
        return sum(operator.written_b for operator in operators if operator.name == ALL_REDUCE)

    def _main(self, members: tuple[int, ...]) -> int:
        return members[main_operator([self._kept[row] for row in members])]


_ONES = MatrixShape(batch=1, m=1, n=1, k=1)


def _shapes(operators: Sequence[Operator]) -> Shapes:
    columns = np.array(
        [
            (shape.batch, shape.m, shape.n, shape.k, shape.window, shape.pixels)
            for shape in (operator.shape or _ONES for operator in operators)
        ],
        dtype=float,
    ).reshape(-1, 6)
    batch, m, n, k, window, pixels = np.maximum(columns, 1.0).T
    return Shapes(batch=batch, m=m, n=n, k=k, window=window, pixels=pixels)


def kind_name(operator: Operator) -> str:
    """Return the kind of ``operator`` as efficiencies and launch times are named."""
    return "depthwise" if is_depthwise(operator) else operator.kind
