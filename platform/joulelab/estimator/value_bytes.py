"""How the bytes of each operator split among the values that it reads and writes."""

from collections.abc import Sequence

from joulelab.estimator.program import Operator, Program


class ValueBytes:
    """Bytes per value of a program.

    An :class:`~joulelab.estimator.program.Operator` tells its bytes in total; this class shares
    them out, so that the shares of an operator always sum to its totals. A value that is the
    only one its operator writes holds all bytes written; one of several holds what its first
    reader reads of it, and those that nobody reads share the rest. An operator reads each value
    whole; those without a writer, such as inputs of the program, share what is then left; where
    it reads less than the values hold, such as a slice, the smallest are read whole first.

    Attributes:
        inputs: Values that each operator reads, without repetitions.
        writer: Index of the operator that writes each value; inputs of the program have none.
        readers: Indices of the operators that read each value, in order.
    """

    def __init__(self, program: Program) -> None:
        operators = program.operators
        self.inputs = [distinct(operator.inputs) for operator in operators]
        self.writer = {
            value: index for index, operator in enumerate(operators) for value in operator.outputs
        }
        self.readers: dict[int, list[int]] = {}
        for index, inputs in enumerate(self.inputs):
            for value in inputs:
                self.readers.setdefault(value, []).append(index)
        self._size_b: dict[int, float] = {}
        self._find_sizes(operators)
        self._read_b = [
            self._shares_b(operator, inputs)
            for operator, inputs in zip(operators, self.inputs, strict=True)
        ]

    def size_b(self, value: int) -> float:
        """Return the bytes that ``value`` holds.

        Of a value without a writer, it is the most that any operator reads of it.
        """
        if value in self._size_b:
            return self._size_b[value]
        return max((self.read_b(reader, value) for reader in self.readers[value]), default=0.0)

    def read_b(self, index: int, value: int) -> float:
        """Return the bytes of ``value`` that the operator at ``index`` reads."""
        return self._read_b[index][value]

    def _shares_b(self, operator: Operator, inputs: tuple[int, ...]) -> dict[int, float]:
        if len(inputs) == 1:
            return {inputs[0]: operator.read_b}
        shares_b = split_b(operator.read_b, [self._size_b.get(value) for value in inputs])
        return dict(zip(inputs, shares_b, strict=True))

    def _find_sizes(self, operators: Sequence[Operator]) -> None:
        for operator in operators:
            if len(operator.outputs) == 1:
                self._size_b[operator.outputs[0]] = operator.written_b
        first_read_b: dict[int, float] = {}
        for operator, inputs in zip(operators, self.inputs, strict=True):
            if any(value in self.writer and value not in self._size_b for value in inputs):
                for value, share_b in self._shares_b(operator, inputs).items():
                    first_read_b.setdefault(value, share_b)
        for operator in operators:
            if len(operator.outputs) > 1:
                outputs = distinct(operator.outputs)
                hints_b = [first_read_b.get(value) for value in outputs]
                sizes_b = split_b(operator.written_b, hints_b)
                self._size_b.update(zip(outputs, sizes_b, strict=True))


def distinct(values: Sequence[int]) -> tuple[int, ...]:
    """Return ``values`` without repetitions, in order."""
    return tuple(values) if len(values) < 2 else tuple(dict.fromkeys(values))


def split_b(total_b: float, sizes_b: Sequence[float | None]) -> list[float]:
    """Split ``total_b`` among values that hold ``sizes_b``; ``None`` where that is unknown.

    Known values get what they hold, unknown ones equal parts of the rest; without an unknown
    one the rest goes to the largest. Where the total is less than the known ones hold, they get
    equal parts of it, but none more than it holds.
    """
    shares_b = [0.0] * len(sizes_b)
    known = sorted((size_b, at) for at, size_b in enumerate(sizes_b) if size_b is not None)
    left_b = total_b
    for rank, (size_b, at) in enumerate(known):
        shares_b[at] = min(size_b, left_b / (len(known) - rank))
        left_b = max(left_b - shares_b[at], 0.0)
    unknown = [at for at, size_b in enumerate(sizes_b) if size_b is None]
    takers = unknown or [at for _, at in known[-1:]]
    for at in takers:
        shares_b[at] += left_b / len(takers)
    return shares_b
