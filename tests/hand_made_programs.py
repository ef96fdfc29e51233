"""Programs written by hand, and random ones: operators over values of known bytes."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from joulelab.tracing.program import Operator, Program, Stage

POINTWISE = {"relu": "elementwise", "add": "elementwise", "gelu": "elementwise", "clone": "copy"}
KINDS = {
    **POINTWISE,
    "mm": "gemm",
    "convolution": "conv",
    "native_batch_norm": "norm",
    "native_layer_norm": "norm",
    "_softmax": "softmax",
    "mean": "reduction",
    "max_pool2d_with_indices": "reduction",
    "embedding": "gather",
    "mul": "elementwise",
    "pow": "elementwise",
}


class ProgramBuilder:
    """Adds operators one by one; every value is named and has a size in bytes."""

    def __init__(self, **inputs_b: float) -> None:
        self._sizes_b = dict(inputs_b)
        self._ids = {name: number for number, name in enumerate(inputs_b)}
        self._operators: list[Operator] = []

    def call(
        self,
        name: str,
        reads: str,
        writes: str,
        *,
        read_b: float | None = None,
        size_b: float | None = None,
        weight_b: float = 0.0,
        stage: Stage = "forward",
    ) -> "ProgramBuilder":
        """Add operator ``name`` that reads and writes the values named, separated by blanks.

        ``read_b`` is what it reads, by default all of it; ``size_b`` is what each value written
        holds, by default as much as the first one read.
        """
        inputs, outputs = reads.split(), writes.split()
        inputs_b = {self._ids[value]: self._sizes_b[value] for value in inputs}
        size_b = self._sizes_b[inputs[0]] if size_b is None else size_b
        for output in outputs:
            self._sizes_b[output] = size_b
            self._ids[output] = len(self._ids)
        self._operators.append(
            Operator(
                name=name,
                kind=KINDS[name.rstrip("_")],
                flop=float(len(self._operators) + 1),
                read_b=sum(inputs_b.values()) if read_b is None else read_b,
                weight_b=weight_b,
                written_b=sum(self._sizes_b[value] for value in outputs),
                inputs=tuple(inputs_b),
                inputs_b=tuple(inputs_b.values()),
                outputs=tuple(self._ids[value] for value in outputs),
                outputs_b=(size_b,) * len(outputs),
                stage=stage,
            )
        )
        return self

    def program(self, **fields: Any) -> Program:
        """Return the program made so far."""
        return Program(operators=tuple(self._operators), parameter_b=0.0, **fields)


def names(program: Program, groups: Sequence[Sequence[int]]) -> list[list[str]]:
    """Return the names of the operators of each group."""
    return [[program.operators[index].name for index in group] for group in groups]


def shares_of(values: Sequence[int]) -> st.SearchStrategy[list[float]]:
    """Return what may be read of ``values``, in any unit."""
    sizes_b = st.one_of(st.just(0.0), st.floats(1, 100))
    return st.lists(sizes_b, min_size=len(values), max_size=len(values))


@st.composite
def programs(draw) -> Program:
    """Small random programs: any operators, any reuse of values, several outputs, in place."""
    num_inputs = draw(st.integers(1, 2))
    num_values, operators = num_inputs, []
    stages = sorted(
        draw(st.lists(st.sampled_from(["1 forward", "2 backward", "3 optimizer"]), max_size=14))
    )
    for stage in stages:
        name = draw(st.sampled_from(sorted(KINDS)))
        inputs = draw(st.lists(st.integers(0, num_values - 1), max_size=3))
        num_outputs = draw(st.integers(1, 2))
        bytes_ = st.one_of(st.just(0.0), st.floats(1, 100))
        operators.append(
            Operator(
                name=name + draw(st.sampled_from(["", "_"])),
                kind=KINDS[name],
                flop=draw(bytes_),
                read_b=draw(bytes_),
                weight_b=draw(bytes_),
                written_b=draw(bytes_),
                inputs=tuple(inputs),
                inputs_b=tuple(draw(st.one_of(st.just([]), shares_of(inputs)))),
                outputs=tuple(range(num_values, num_values + num_outputs)),
                stage=stage.split()[1],
            )
        )
        num_values += num_outputs
    return Program(operators=tuple(operators), parameter_b=0.0)
