"""Which operators a compiler runs as one kernel, and the memory traffic that is left.

Greedy producer-consumer fusion in one pass over the program. An elementwise operator, a copy or a
batch norm of inference joins the kernel that makes its input, as its epilogue, where nothing else
still needs that input. Among kernels of pointwise work alone, values may have other readers too:
they are written once, and not read back. A reduction, a softmax or a normalisation takes such
pointwise work in as its prologue.

PyTorch's compiler calls libraries for products, convolutions and attention, which take nothing in:
its template kernels, which do, come with ``mode="max-autotune"`` alone. There matrix work stays
apart, and rows that are picked from a table are pointwise.
"""

from collections.abc import Sequence

from joulelab.core.grouping import grouped_by
from joulelab.errors import ConfigError
from joulelab.tracing.program import MATRIX_KINDS, Kind, Program

_WHOLE = 0.999  # of a value, but for rounding


class ValueBytes:
    """Bytes per value of a program.

    The shares of an operator always sum to its totals. They are in proportion to its
    ``inputs_b`` and ``outputs_b``, and equal where it has none.

    Attributes:
        writer: Index of the operator that writes each value; inputs of the program have none.
        readers: Indices of the operators that read each value, in order.
        read_b: For each operator, the bytes that it reads of each value; 0 of one of which it
            only leaves a part as it was.
    """

    def __init__(self, program: Program) -> None:
        self.writer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.read_b: list[dict[int, float]] = []
        self._size_b: dict[int, float] = {}
        self._operators = program.operators
        for index, operator in enumerate(program.operators):
            read_b = _split_b(operator.read_b, operator.inputs, operator.inputs_b)
            self.read_b.append(read_b)
            for value in read_b:
                self.readers.setdefault(value, []).append(index)
            written_b = _split_b(operator.written_b, operator.outputs, operator.outputs_b)
            self._size_b.update(written_b)
            self.writer.update(dict.fromkeys(written_b, index))

    def size_b(self, value: int) -> float:
        """Return the bytes written of ``value``; without a writer, the most that are read of it."""
        if value in self._size_b:
            return self._size_b[value]
        return max(self.read_b[reader][value] for reader in self.readers[value])

    def is_outside(self, value: int) -> bool:
        """Whether ``value`` was there before the program."""
        return value in self.readers and value not in self.writer

    def leaves_a_part(self, index: int, value: int) -> bool:
        """Whether operator ``index`` works in place and leaves a part of ``value`` as it was."""
        read_b = self.read_b[index][value]
        is_in_place = self._operators[index].name.endswith("_")
        return read_b == 0 or (is_in_place and read_b < _WHOLE * self.size_b(value))


def _split_b(total_b: float, values: Sequence[int], sizes_b: Sequence[float]) -> dict[int, float]:
    """Split ``total_b`` among ``values`` in proportion to ``sizes_b``, equally if there are none.

    A value that is listed twice is one value.
    """
    if not values:
        return {}
    if len(values) == 1 and total_b:
        return {values[0]: total_b}
    known_b = sum(sizes_b)
    if len(sizes_b) == len(values) and (known_b or not total_b):
        scale = total_b / known_b if known_b else 0.0
        shares_b = [size_b * scale for size_b in sizes_b]
    else:
        shares_b = [total_b / len(values)] * len(values)
    split_b: dict[int, float] = {}
    for value, share_b in zip(values, shares_b, strict=True):
        split_b[value] = split_b.get(value, 0.0) + share_b
    return split_b


Groups = tuple[tuple[int, ...], ...]
"""Indices into the operators of a program, one tuple per kernel, in the order of execution."""

Traffic = tuple[float, float, float, float]
"""Bytes of activations read, of parameters read, and written; and of the activations read those
that were there before the program: its inputs, and a cache that is passed in."""

_POINTWISE: tuple[Kind, ...] = ("elementwise", "copy")
_TAKES_A_PROLOGUE: tuple[Kind, ...] = ("norm", "softmax", "reduction")

# A kernel's tiles cover the values it makes. An operator that writes far more than it takes from
# there, such as a gate that scales a whole feature map, would run on too few of them.
_LARGEST_GROWTH = 8.0


def unfused(program: Program) -> Groups:
    """Return every operator as a kernel of its own: what eager PyTorch launches."""
    return tuple((index,) for index in range(len(program.operators)))


def fused(program: Program, *, apart: bool = False) -> Groups:
    """Return the kernels of ``program`` after fusion; matrix work is one each if it is ``apart``.

    Every operator is in exactly one kernel; no kernel reads what a later one writes, and none
    spans two stages of a training step. Batch norm of a training step is not fused: it needs the
    statistics of its whole input first.
    """
    return _Fuser(program, apart=apart).groups()


def traffic(program: Program, groups: Groups) -> tuple[Traffic, ...]:
    """Return the bytes that each of ``groups`` moves.

    A value that only its own group reads does not reach memory, and what several operators of a
    group read is read once. An operator's bytes split among its values by its ``inputs_b`` and
    ``outputs_b``, or equally where it has none; for unfused groups the totals are the operators'
    own, and fusion never adds to them. Raises ConfigError if ``groups`` do not hold every operator
    exactly once.
    """
    group_of = group_indices(program, groups)
    values = ValueBytes(program)
    return tuple(_group_traffic(program, group, group_of, values) for group in groups)


def group_indices(program: Program, groups: Groups) -> list[int]:
    """Return each operator's position in ``groups``; ConfigError unless each is there once."""
    members = sorted(index for group in groups for index in group)
    if members != list(range(len(program.operators))):
        raise ConfigError(
            f"groups must hold each of {len(program.operators)} operators exactly once, "
            f"got {len(members)} indices, {len(set(members))} of them distinct."
        )
    positions = [0] * len(members)
    for position, group in enumerate(groups):
        for index in group:
            positions[index] = position
    return positions


def _group_traffic(
    program: Program, group: tuple[int, ...], group_of: list[int], values: ValueBytes
) -> Traffic:
    own = group_of[group[0]]
    reads_b: dict[int, list[float]] = {}
    written_b = 0.0
    for index in group:
        operator = program.operators[index]
        if not operator.inputs:
            reads_b[-1 - index] = [operator.read_b]
        for value, read_b in values.read_b[index].items():
            if value not in values.writer or group_of[values.writer[value]] != own:
                reads_b.setdefault(value, []).append(read_b)
        inside_b = sum(
            values.size_b(value)
            for value in dict.fromkeys(operator.outputs)
            if _stays_inside(value, own, group_of, values)
        )
        written_b += max(operator.written_b - inside_b, 0.0)
    once_b = {value: _read_once_b(value, shares_b, values) for value, shares_b in reads_b.items()}
    outside_b = sum(read_b for value, read_b in once_b.items() if values.is_outside(value))
    weight_b = sum(program.operators[index].weight_b for index in group)
    return sum(once_b.values()), weight_b, written_b, outside_b


def _read_once_b(value: int, shares_b: list[float], values: ValueBytes) -> float:
    if len(shares_b) == 1:
        return shares_b[0]
    return min(sum(shares_b), max(values.size_b(value), *shares_b))


def _stays_inside(value: int, own: int, group_of: list[int], values: ValueBytes) -> bool:
    readers = values.readers.get(value, ())
    return bool(readers) and all(
        group_of[reader] == own and not values.leaves_a_part(reader, value) for reader in readers
    )


class _Fuser:
    """State of one pass: a forest of operators, and what is known of each tree at its root."""

    def __init__(self, program: Program, *, apart: bool) -> None:
        self._operators = program.operators
        self._values = ValueBytes(program)
        self._is_closed = [apart and one.kind in MATRIX_KINDS for one in program.operators]
        pointwise = (*_POINTWISE, "gather") if apart else _POINTWISE
        in_training = any(operator.stage != "forward" for operator in program.operators)
        self._is_epilogue = [
            operator.kind in pointwise or ("batch_norm" in operator.name and not in_training)
            for operator in program.operators
        ]
        self._is_pointwise = list(self._is_epilogue)
        self._parent = list(range(len(program.operators)))
        self._has_outside_readers = [False] * len(program.operators)
        self._last_reader = {
            (value, program.operators[reader].stage): reader
            for value, readers in self._values.readers.items()
            for reader in readers
        }

    def groups(self) -> Groups:
        for index in range(len(self._operators)):
            self._place(index)
        members = grouped_by(range(len(self._operators)), self._root)
        # Nobody outside reads a group before its last operator, so this order is topological.
        return tuple(
            tuple(group) for group in sorted(members.values(), key=lambda group: group[-1])
        )

    def _place(self, index: int) -> None:
        if self._is_epilogue[index] or self._operators[index].kind in _TAKES_A_PROLOGUE:
            for host in self._hosts(index):
                first, last = sorted((self._root(host), self._root(index)))
                self._parent[last] = first
                self._is_pointwise[first] &= self._is_pointwise[last]
        own = self._root(index)
        for value in self._values.read_b[index]:
            writer = self._values.writer.get(value)
            if writer is not None and (root := self._root(writer)) != own:
                self._has_outside_readers[root] = True

    def _hosts(self, index: int) -> list[int]:
        """Return the groups that ``index`` joins: pointwise ones, and at most one other."""
        others: dict[int, tuple[float, int]] = {}
        hosts: set[int] = set()
        for value in self._values.read_b[index]:
            writer = self._values.writer.get(value)
            if writer is None or not self._may_join(index, value, writer):
                continue
            root = self._root(writer)
            if self._is_pointwise[root]:
                hosts.add(root)
            elif not self._is_closed[root] and self._can_end(index, value):
                rank = (self._values.size_b(value), writer)
                others[root] = max(rank, others.get(root, rank))
        return [*hosts, *sorted(others, key=lambda root: others[root])[-1:]]

    def _may_join(self, index: int, value: int, writer: int) -> bool:
        operator = self._operators[index]
        is_open = not self._has_outside_readers[self._root(writer)]
        is_one_stage = operator.stage == self._operators[writer].stage
        if not (is_open and is_one_stage):
            return False
        return not self._values.leaves_a_part(index, value)

    def _can_end(self, index: int, value: int) -> bool:
        operator = self._operators[index]
        is_last = self._last_reader[value, operator.stage] == index
        is_small = operator.written_b <= _LARGEST_GROWTH * self._values.size_b(value)
        return self._is_epilogue[index] and is_last and is_small

    def _root(self, index: int) -> int:
        parent = self._parent
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index
