"""What a compiler leaves out of a program before it fuses what remains.

Operators of PyTorch make more than programs need. Pooling writes where each maximum was, norms
write their statistics, attention writes the logarithms of its sums: a backward pass wants them,
inference does not, and a compiler drops whatever nothing reads. And a convolution of single
pixels that skips every other one need not fetch those in between: compilers keep all channels of
a pixel side by side.
"""

from dataclasses import replace

from joulelab.estimator.graph.value_bytes import ValueBytes
from joulelab.estimator.precision import element_b
from joulelab.estimator.program import Operator, Program


def pruned(program: Program) -> Program:
    """Return ``program`` without by-products that nothing reads and pixels that nothing needs.

    A result that nothing reads beside one that is read is a by-product; where nothing reads any,
    they are results of the program. What the program holds in memory is left as it was traced.
    """
    values = ValueBytes(program)
    operators = tuple(
        _with_windows(_without_by_products(operator, values)) for operator in program.operators
    )
    return replace(program, operators=operators)


def _without_by_products(operator: Operator, values: ValueBytes) -> Operator:
    read = [value in values.readers for value in operator.outputs]
    if all(read) or not any(read) or len(operator.outputs_b) != len(operator.outputs):
        return operator
    kept = [
        (value, size_b)
        for value, size_b, is_read in zip(operator.outputs, operator.outputs_b, read, strict=True)
        if is_read
    ]
    outputs, outputs_b = zip(*kept, strict=True)
    return replace(operator, outputs=outputs, outputs_b=outputs_b, written_b=sum(outputs_b))


def _with_windows(operator: Operator) -> Operator:
    """Let a convolution read at most what its windows hold, however few pixels these cover."""
    shape = operator.shape
    if operator.kind != "conv" or shape is None or operator.stage != "forward":
        return operator
    windows_b = shape.batch * shape.m * shape.k * element_b(operator.dtype)
    if windows_b >= operator.read_b:
        return operator
    share = windows_b / operator.read_b
    inputs_b = tuple(size_b * share for size_b in operator.inputs_b)
    return replace(operator, read_b=windows_b, inputs_b=inputs_b)
