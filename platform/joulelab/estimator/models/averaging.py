"""The mean of two programs of one loop, whose steps grow linearly in between."""

from collections.abc import Sequence
from dataclasses import replace

from joulelab.errors import ConfigError
from joulelab.estimator.program import Operator, Program


def averaged_programs(first: Program, last: Program) -> Program:
    """Return the mean of the first and the last step of a loop, operator by operator.

    Operations and bytes moved are exact means over the loop if they grow linearly along it, as
    they do with the length of a key-value cache. What memory holds is that of ``last``, where it
    is most.

    Raises:
        ConfigError: If the two do not run the same operators in the same order.
    """
    if [_kind(operator) for operator in first.operators] != [
        _kind(operator) for operator in last.operators
    ]:
        raise ConfigError(
            "Two steps can be averaged only if they run the same operators in the same order, "
            f"got {len(first.operators)} and {len(last.operators)} operators that differ."
        )
    operators = tuple(_averaged(a, b) for a, b in zip(first.operators, last.operators, strict=True))
    return replace(last, operators=operators)


def _averaged(a: Operator, b: Operator) -> Operator:
    return replace(
        b,
        flop=(a.flop + b.flop) / 2,
        read_b=(a.read_b + b.read_b) / 2,
        weight_b=(a.weight_b + b.weight_b) / 2,
        written_b=(a.written_b + b.written_b) / 2,
        inputs_b=_means(a.inputs_b, b.inputs_b),
        outputs_b=_means(a.outputs_b, b.outputs_b),
    )


def _means(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple((x + y) / 2 for x, y in zip(a, b, strict=True))


def _kind(operator: Operator) -> tuple[str, str, str, int, int]:
    return (
        *(operator.name, operator.module, operator.pipe),
        *(len(operator.inputs), len(operator.outputs)),
    )
