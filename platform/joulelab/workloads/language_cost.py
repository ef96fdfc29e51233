"""What a language model asks of a device, traced from the very network that would run.

A compiled step launches the kernels that fusing leaves of an eager one, all in one CUDA graph.

Imports torch and transformers, so it is imported only by functions that trace a network.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.estimator.graph.fusion import Traffic, fused, traffic
from joulelab.estimator.graph.kernels import averaged, kernel_of, kernels_of, merged, repeated
from joulelab.estimator.graph.table import main_operator
from joulelab.estimator.graph.values import dense_parts
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.trace import fake_tensors, trace, trace_program
from joulelab.workloads import formats
from joulelab.workloads.generation import Generation
from joulelab.workloads.host_calls import HostCalls
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings

Kernels = tuple[KernelCost, ...]


def trace_phases(workload: LanguageWorkload[Any]) -> tuple[tuple[PhaseCost, ...], float]:
    """Return the costs of one prefill and of one decode, and the bytes held.

    The bytes are those of the weights and of the cache at its longest; activations come on top.
    """
    settings = workload.settings
    with fake_tensors():
        generation = Generation(workload.network(torch.device("cpu")), settings)
        formats.store_in(generation.network, settings.precision)
        weights_b, calls = float(_weights_b(generation.network)), HostCalls()
        read = kernels_of(_traced(generation.prefill, generation, settings, calls))
        prefill = PhaseCost(
            phase="prefill",
            work=workload.work("prefill"),
            kernels=merged(read),
            parameter_b=weights_b,
            host_calls=calls.count,
        )
        kernels, calls_per_step = _trace_decode(generation, settings)
        decode = PhaseCost(
            phase="decode",
            work=workload.work("decode"),
            kernels=merged(kernels),
            parameter_b=weights_b,
            num_graphs=settings.new_tokens if settings.compile else 0,
            host_calls=0 if settings.compile else settings.new_tokens * calls_per_step,
        )
        held_b = weights_b + _cache_b(generation, settings)
    return (prefill, decode), held_b


def _trace_decode(generation: Generation, settings: LanguageSettings) -> tuple[Kernels, int]:
    """Trace the first and the last step: operations and bytes grow linearly in between.

    Returns:
        The kernels of all steps and of what goes before them, and the calls of one step.
    """
    kernels = _fused_kernels if settings.compile else kernels_of
    generation.rewind()  # fills a cache with a context, once
    rewind, calls = trace(generation.rewind), HostCalls()
    first = last = kernels(_traced(lambda: generation.step(0), generation, settings, calls))
    if settings.new_tokens > 1:
        index = settings.new_tokens - 1
        generation.lengthen(index - 1)
        last = kernels(_traced(lambda: generation.step(index), generation, settings, HostCalls()))
    steps = repeated(averaged(first, last), settings.new_tokens)
    return (*rewind, *steps), calls.count


def _traced(
    step: Callable[[], object],
    generation: Generation,
    settings: LanguageSettings,
    calls: HostCalls,
) -> Program:
    tf32 = settings.precision == "tf32"
    return trace_program(
        calls.during(step), network=generation.network, tf32_matmul=tf32, strict=True
    )


def _fused_kernels(program: Program) -> Kernels:
    """Return one kernel for each group, named and placed after its operator of most operations."""
    groups = fused(program)
    return tuple(
        _fused_kernel(program, group, moved_b)
        for group, moved_b in zip(groups, traffic(program, groups), strict=True)
    )


def _fused_kernel(program: Program, group: tuple[int, ...], moved_b: Traffic) -> KernelCost:
    operators = [program.operators[index] for index in group]
    main = operators[main_operator(operators)]
    _, weight_b, written_b = moved_b
    return replace(
        kernel_of(main),
        flop=sum(operator.flop for operator in operators),
        dram_b=sum(moved_b),
        weight_b=weight_b,
        written_b=written_b,
    )


def _weights_b(network: torch.nn.Module) -> int:
    return sum(
        part.numel() * part.element_size()
        for weights in network.parameters()
        for part in dense_parts(weights)
    )


def _cache_b(generation: Generation, settings: LanguageSettings) -> int:
    tokens = settings.cached_tokens + settings.new_tokens
    if settings.context_tokens is not None:  # the prefill has a cache of its own
        tokens += settings.prompt_tokens
        tokens += settings.new_tokens if settings.kv_cache == "static" else 0
    return settings.batch * tokens * generation.cached_b_per_token
