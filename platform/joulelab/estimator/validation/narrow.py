"""Programs quantised throughout, as deployment compilers make them."""

from dataclasses import replace

from joulelab.estimator.precision import is_matrix
from joulelab.estimator.program import Operator, Program, TracedModel


def narrowed(model: TracedModel) -> TracedModel:
    """Return ``model``, quantised to eight bits, with eight bits between its layers as well.

    Its products read eight bits already; what goes into it, what they write, and what everything
    between them reads and writes, shrinks from sixteen. What no product reads any more, such as
    scores and boxes on their way to being chosen from, keeps its precision.
    """
    phases = tuple(replace(phase, program=_program(phase.program)) for phase in model.phases)
    return replace(model, phases=phases)


def _program(program: Program) -> Program:
    narrow = _read_by_products(program)
    operators = tuple(_operator(operator, narrow) for operator in program.operators)
    return replace(program, operators=operators, input_b=program.input_b / 2)


def _read_by_products(program: Program) -> frozenset[int]:
    """Return the values that a product reads, directly or through other operators."""
    found: set[int] = set()
    for operator in reversed(program.operators):
        if is_matrix(operator) or not found.isdisjoint(operator.outputs):
            found.update(operator.inputs)
    return frozenset(found)


def _operator(operator: Operator, narrow: frozenset[int]) -> Operator:
    if not narrow.isdisjoint(operator.outputs):
        outputs_b = tuple(size_b / 2 for size_b in operator.outputs_b)
        operator = replace(operator, written_b=operator.written_b / 2, outputs_b=outputs_b)
    if is_matrix(operator) or narrow.isdisjoint(operator.inputs):
        return operator
    inputs_b = tuple(size_b / 2 for size_b in operator.inputs_b)
    return replace(operator, read_b=operator.read_b / 2, inputs_b=inputs_b)
