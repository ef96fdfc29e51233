"""The bytes of each value that a program's operators read and write."""

from collections.abc import Sequence

from joulelab.estimator.program import Program


class ValueBytes:
    """Bytes per value of a program.

    The shares of an operator always sum to its totals. They are in proportion to its
    ``inputs_b`` and ``outputs_b``, and equal where it does not tell those.

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
        for index, operator in enumerate(program.operators):
            read_b = _split_b(operator.read_b, operator.inputs, operator.inputs_b)
            self.read_b.append(read_b)
            for value in read_b:
                self.readers.setdefault(value, []).append(index)
            written_b = _split_b(operator.written_b, operator.outputs, operator.outputs_b)
            self._size_b.update(written_b)
            self.writer.update(dict.fromkeys(written_b, index))

    def size_b(self, value: int) -> float:
        """Return the bytes that were written of ``value``.

        Of a value without a writer, it is the most that any operator reads of it.
        """
        if value in self._size_b:
            return self._size_b[value]
        return max(self.read_b[reader][value] for reader in self.readers[value])


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
