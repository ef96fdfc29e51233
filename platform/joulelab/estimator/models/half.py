"""The two half-precision formats run the same operators on values of the same size.

Both are traced in ``bfloat16``: grouped products, of experts, exist in no other format.
"""

from dataclasses import replace

from joulelab.core.cost import Pipe
from joulelab.estimator.models.base import Traced
from joulelab.estimator.program import Operator, Program

_PIPES: dict[Pipe, Pipe] = {"tensor_bf16": "tensor_fp16"}


def as_float16(traced: Traced) -> Traced:
    """Return a trace in ``bfloat16`` as it would be in ``float16``."""
    phases = tuple(replace(phase, program=_program(phase.program)) for phase in traced.phases)
    return replace(traced, phases=phases)


def _program(program: Program) -> Program:
    return replace(program, operators=tuple(_operator(each) for each in program.operators))


def _operator(operator: Operator) -> Operator:
    if operator.dtype != "bfloat16":
        return operator
    return replace(operator, dtype="float16", pipe=_PIPES.get(operator.pipe, operator.pipe))
