"""Kernels of a program: equal ones merged, repeated, and two runs of one loop averaged; costs."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.errors import ConfigError
from joulelab.tracing.program import ALL_REDUCE, Operator, Program, ProgramPhase


def kernels_of(program: Program) -> tuple[KernelCost, ...]:
    """Return the kernels that ``program`` launches, in their order."""
    return tuple(kernel_of(operator) for operator in program.operators)


def kernel_of(operator: Operator) -> KernelCost:
    """Return the kernel that ``operator`` launches."""
    shape = operator.shape
    return KernelCost(
        name=ALL_REDUCE if operator.name == ALL_REDUCE else operator.kind,
        pipe=operator.pipe,
        flop=operator.flop,
        dram_b=operator.moved_b,
        weight_b=operator.weight_b,
        written_b=operator.written_b,
        dtype=operator.dtype,
        reread_b=_reread_b(operator),
        steps=operator.steps,
        shape=None if shape is None else (shape.batch, shape.m, shape.n, shape.k),
    )


def cost_of(unit: str, phases: Sequence[ProgramPhase]) -> WorkloadCost:
    """Return what a workload of ``phases`` asks of a device; it holds as much as the largest."""
    return WorkloadCost(
        unit=unit,
        phases=tuple(
            PhaseCost(
                phase=each.phase,
                work=each.work,
                kernels=merged(repeated(kernels_of(each.program), each.count)),
                parameter_b=each.program.parameter_b,
                host_calls=each.count * each.host_calls,
            )
            for each in phases
        ),
        resident_b=max(each.program.held_b for each in phases),
    )


def _reread_b(operator: Operator) -> float:
    """Return what PyTorch's 4-bit product reads again, beyond once.

    Its blocks are 16 rows by 8 columns (``tinygemm``, aten/src/ATen/native/cuda/int4mm.cu): each
    reads its rows of the activations and its columns of the weights anew.
    """
    if operator.name != "_weight_int4pack_mm" or operator.shape is None:
        return 0.0
    blocks_down, blocks_across = ceil(operator.shape.m / 16), ceil(operator.shape.n / 8)
    return (blocks_across - 1) * operator.read_b + (blocks_down - 1) * operator.weight_b


def merged(kernels: Iterable[KernelCost]) -> tuple[KernelCost, ...]:
    """Return ``kernels`` with equal ones counted together, in order of first appearance."""
    counts: Counter[KernelCost] = Counter()
    for kernel in kernels:
        counts[replace(kernel, count=1)] += kernel.count
    return tuple(replace(kernel, count=count) for kernel, count in counts.items())


def repeated(kernels: Iterable[KernelCost], times: int) -> tuple[KernelCost, ...]:
    """Return ``kernels`` as launched ``times`` times over; ``times`` is at least 1."""
    return tuple(replace(kernel, count=kernel.count * times) for kernel in kernels)


def averaged(first: Sequence[KernelCost], last: Sequence[KernelCost]) -> tuple[KernelCost, ...]:
    """Return the mean of two traces of one program, kernel by kernel.

    Where operations and bytes grow linearly from the first to the last of a series of runs, as they
    do with the length of a key-value cache, this is the exact mean over the series. Raises
    ConfigError if the two did not launch the same kinds of kernels in the same order.
    """
    kinds = [[(each.name, each.pipe, each.count) for each in kernels] for kernels in (first, last)]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            "Two traces can be averaged only if they launch the same kernels in the same order, "
            f"got {len(first)} and {len(last)} kernels that differ in name, pipe or count."
        )
    return tuple(
        replace(
            a,
            **_means_of(a, b, ("flop", "dram_b", "weight_b", "written_b")),
            shape=_mean_shape(a, b),
        )
        for a, b in zip(first, last, strict=True)
    )


def _mean_shape(a: KernelCost, b: KernelCost) -> tuple[float, float, float, float] | None:
    if a.shape is None or b.shape is None:
        return None
    batch, m, n, k = _means(a.shape, b.shape)
    return batch, m, n, k


def mean_step(
    step: Callable[[int], Program], skip: Callable[[int], None], num_steps: int
) -> Program:
    """Return the mean step of a loop whose steps grow linearly, from its first and its last.

    ``step`` traces the step of an index; ``skip`` makes as if that many steps had been done. Raises
    ConfigError if the two do not run the same operators in the same order.
    """
    first = last = step(0)
    if num_steps > 1:
        skip(num_steps - 2)
        last = step(num_steps - 1)
    return _averaged_programs(first, last)


def _averaged_programs(first: Program, last: Program) -> Program:
    """Return the mean of the first and the last step of a loop, operator by operator.

    Operations and bytes moved are exact means over the loop if they grow linearly along it, as
    they do with the length of a key-value cache. What memory holds is that of ``last``, where it
    is most.
    """
    if list(map(_operator_kind, first.operators)) != list(map(_operator_kind, last.operators)):
        raise ConfigError(
            "Two steps can be averaged only if they run the same operators in the same order, "
            f"got {len(first.operators)} and {len(last.operators)} operators that differ."
        )
    operators = tuple(
        replace(
            b,
            **_means_of(a, b, ("flop", "read_b", "weight_b", "written_b")),
            inputs_b=_means(a.inputs_b, b.inputs_b),
            outputs_b=_means(a.outputs_b, b.outputs_b),
        )
        for a, b in zip(first.operators, last.operators, strict=True)
    )
    return replace(last, operators=operators)


def _means_of(a: object, b: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: (getattr(a, name) + getattr(b, name)) / 2 for name in names}


def _means(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple((x + y) / 2 for x, y in zip(a, b, strict=True))


def _operator_kind(operator: Operator) -> tuple[str, str, str, int, int]:
    return (
        *(operator.name, operator.module, operator.pipe),
        *(len(operator.inputs), len(operator.outputs)),
    )
