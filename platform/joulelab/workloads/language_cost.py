"""What a language model asks of a device, traced from the very network that would run.

A compiled step launches the kernels that fusing leaves of an eager one; that CUDA graphs launch
them together is not counted, as a cost has no word for it.

Imports torch and transformers, so it is imported only by functions that trace a network.
"""

from collections.abc import Callable
from typing import Any

import torch

from joulelab.core.cost import KernelCost
from joulelab.estimator.graph.fusion import fused, traffic
from joulelab.estimator.graph.kernels import averaged, kernels_of, merged, repeated
from joulelab.estimator.graph.values import dense_parts
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.trace import fake_tensors, trace, trace_program
from joulelab.workloads import formats
from joulelab.workloads.generation import Generation
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings

Kernels = tuple[KernelCost, ...]


def trace_phases(workload: LanguageWorkload[Any]) -> tuple[dict[str, Kernels], float]:
    """Return the kernels of one prefill and of one decode, by phase, and the bytes held.

    The bytes are those of the weights and of the cache at its longest; activations come on top.
    """
    settings = workload.settings
    with fake_tensors():
        generation: Generation = workload.generation(torch.device("cpu"))
        formats.store_in(generation.network, settings.precision)
        prefill = kernels_of(_traced(generation.prefill, generation, settings))
        rewind, steps = _trace_decode(generation, settings)
        held_b = _weights_b(generation.network) + _cache_b(generation, settings)
    return {"prefill": merged(prefill), "decode": merged((*rewind, *steps))}, float(held_b)


def _trace_decode(generation: Generation, settings: LanguageSettings) -> tuple[Kernels, Kernels]:
    """Trace the first and the last step: operations and bytes grow linearly in between."""
    kernels = _fused_kernels if settings.compile else kernels_of
    generation.rewind()  # fills a cache with a context, once
    rewind = trace(generation.rewind)
    first = last = kernels(_traced(lambda: generation.step(0), generation, settings))
    if settings.new_tokens > 1:
        index = settings.new_tokens - 1
        generation.lengthen(index - 1)
        last = kernels(_traced(lambda: generation.step(index), generation, settings))
    return rewind, repeated(averaged(first, last), settings.new_tokens)


def _traced(
    step: Callable[[], object], generation: Generation, settings: LanguageSettings
) -> Program:
    tf32 = settings.precision == "tf32"
    return trace_program(step, network=generation.network, tf32_matmul=tf32, strict=True)


def _fused_kernels(program: Program) -> Kernels:
    """Return one kernel for each group, named and placed after its operator of most operations."""
    groups = fused(program)
    return tuple(
        _fused_kernel(program, group, sum(moved_b))
        for group, moved_b in zip(groups, traffic(program, groups), strict=True)
    )


def _fused_kernel(program: Program, group: tuple[int, ...], moved_b: float) -> KernelCost:
    operators = [program.operators[index] for index in group]
    main = max(operators, key=lambda operator: operator.flop)
    flop = sum(operator.flop for operator in operators)
    return KernelCost(name=main.kind, pipe=main.pipe, flop=flop, dram_b=moved_b)


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
