"""Programs quantised throughout, as deployment compilers make them."""

from dataclasses import replace

from joulelab.estimator.precision import is_matrix
from joulelab.estimator.program import Operator, Program, TracedModel


def narrowed(model: TracedModel) -> TracedModel:
    """Return ``model``, quantised to eight bits, with eight bits between its layers as well.

    Its products read eight bits already; what they write, and what everything between them reads
    and writes, shrinks from sixteen.
    """
    phases = tuple(replace(phase, program=_program(phase.program)) for phase in model.phases)
    return replace(model, phases=phases)


def _program(program: Program) -> Program:
    operators = tuple(_operator(operator) for operator in program.operators)
    return replace(program, operators=operators)


def _operator(operator: Operator) -> Operator:
    outputs_b = tuple(size_b / 2 for size_b in operator.outputs_b)
    written = replace(operator, written_b=operator.written_b / 2, outputs_b=outputs_b)
    if is_matrix(operator):
        return written
    inputs_b = tuple(size_b / 2 for size_b in operator.inputs_b)
    return replace(written, read_b=operator.read_b / 2, inputs_b=inputs_b)
