"""A program's groups in columns, each operator with the class of kernels that it runs like.

What prices groups is vectorised, and equal ones share a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from joulelab.estimator.pricing.kernel_class import kernel_class, reduced_elements
from joulelab.tracing.fusion import Groups, Traffic, ValueBytes, traffic
from joulelab.tracing.precision import element_b, is_depthwise
from joulelab.tracing.program import (
    ALL_REDUCE,
    MATRIX_KINDS,
    Kind,
    MatrixShape,
    Operator,
    Program,
    main_operator,
)

_REDUCTIONS: tuple[Kind, ...] = ("softmax", "reduction", "norm")

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Flags = NDArray[np.bool_]


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
    has_shape: Flags  # whether the operator row is matrix work with a shape of its own
    member_group: Index  # group row of each membership
    member_row: Index  # operator row of each membership
    read_b: Array
    weight_b: Array
    written_b: Array  # what each group row writes
    outside_b: Array  # what it reads that was there before the program, contained in read_b
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


def tabulate(program: Program, groups: Groups, *, fused: bool = False) -> WorkTable:
    """Return the table of ``program`` in ``groups``; ``fused`` if PyTorch's compiler wrote them."""
    training = any(one.stage == "backward" for one in program.operators)
    rows = _Rows(training=training, fused=fused)
    operator_rows = [rows.operator(operator) for operator in program.operators]
    sequence = [
        rows.group([operator_rows[i] for i in members], moved)
        for members, moved in zip(groups, _traffic(program, groups), strict=True)
    ]
    return rows.table(sequence, program.parameter_b)


def _traffic(program: Program, groups: Groups) -> Sequence[Traffic]:
    if len(groups) != len(program.operators):
        return traffic(program, groups)
    values = ValueBytes(program)  # unfused: nothing stays inside
    return [_alone(program.operators[index], values.read_b[index], values) for (index,) in groups]


def _alone(operator: Operator, read_b: Mapping[int, float], values: ValueBytes) -> Traffic:
    outside_b = sum(moved_b for value, moved_b in read_b.items() if values.is_outside(value))
    return operator.read_b, operator.weight_b, operator.written_b, outside_b


class _Rows:
    """Distinct operators and groups, in order of first appearance."""

    def __init__(self, *, training: bool, fused: bool) -> None:
        self._training = training
        self._fused = fused
        self._operators: dict[object, int] = {}
        self._kept: list[Operator] = []
        self._classes: list[str] = []
        self._groups: dict[tuple[tuple[int, ...], Traffic], int] = {}

    def operator(self, operator: Operator) -> int:
        found = self._class_of(operator)
        key = (
            found,
            operator.steps,
            operator.layout,
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

    def _class_of(self, operator: Operator) -> str:
        if self._fused and operator.kind not in MATRIX_KINDS:
            return "fused_reduction" if self._reduces(operator) else "fused_pointwise"
        return kernel_class(operator, training=self._training)

    def _reduces(self, operator: Operator) -> bool:
        is_applied = "batch_norm" in operator.name and not self._training
        return operator.kind in _REDUCTIONS and not is_applied and "_pool" not in operator.name

    def group(self, members: Sequence[int], moved: Traffic) -> int:
        return self._groups.setdefault((tuple(members), moved), len(self._groups))

    def table(self, sequence: Sequence[int], parameter_b: float) -> WorkTable:
        kept = self._kept
        moved = np.array([moved for _, moved in self._groups], dtype=float).reshape(-1, 4)
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
            outside_b=moved[:, 3],
            reduced_b=np.array([self._reduced_b(group) for group in members]),
            main=np.array([self._main(group) for group in members], dtype=np.intp),
            sequence=np.array(sequence, dtype=np.intp),
            parameter_b=parameter_b,
        )

    def _reduced_b(self, members: tuple[int, ...]) -> float:
        operators = (self._kept[row] for row in members)
        return sum(operator.written_b for operator in operators if operator.name == ALL_REDUCE)

    def _main(self, members: tuple[int, ...]) -> int:
        reducing = [row for row in members if self._classes[row] == "fused_reduction"]
        named = reducing or members
        return named[main_operator([self._kept[row] for row in named])]


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
