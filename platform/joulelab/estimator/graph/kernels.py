"""Lists of kernels: those of a program, equal ones merged, repeated, two lists averaged."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from joulelab.core.cost import KernelCost
from joulelab.errors import ConfigError
from joulelab.estimator.program import Program


def kernels_of(program: Program) -> tuple[KernelCost, ...]:
    """Return the kernels that ``program`` launches, in their order."""
    return tuple(
        KernelCost(
            name=operator.kind, pipe=operator.pipe, flop=operator.flop, dram_b=operator.moved_b
        )
        for operator in program.operators
    )


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

    Where operations and bytes grow linearly from the first to the last of a series of runs,
    as they do with the length of a key-value cache, this is the exact mean over the series.

    Raises:
        ConfigError: If the two did not launch the same kinds of kernels in the same order.
    """
    if [_kind(kernel) for kernel in first] != [_kind(kernel) for kernel in last]:
        raise ConfigError(
            "Two traces can be averaged only if they launch the same kernels in the same order, "
            f"got {len(first)} and {len(last)} kernels that differ in name, pipe or count."
        )
    return tuple(
        replace(a, flop=(a.flop + b.flop) / 2, dram_b=(a.dram_b + b.dram_b) / 2)
        for a, b in zip(first, last, strict=True)
    )


def _kind(kernel: KernelCost) -> tuple[str, str, int]:
    return kernel.name, kernel.pipe, kernel.count
