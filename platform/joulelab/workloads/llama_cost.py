"""What a Llama network asks of a device, traced from the very network that would run.

Imports torch and transformers, so it is imported only by functions that trace a network.
"""

import torch

from joulelab.core.cost import KernelCost
from joulelab.estimator.kernels import averaged, merged, repeated
from joulelab.estimator.trace import fake_tensors, trace
from joulelab.workloads.llama_network import Generation, random_network
from joulelab.workloads.llama_settings import LlamaSettings

Kernels = tuple[KernelCost, ...]


def trace_phases(settings: LlamaSettings) -> dict[str, Kernels]:
    """Return the kernels of one prefill and of one decode, by phase."""
    tf32 = settings.precision == "tf32"
    with fake_tensors():
        network = random_network(settings, torch.device("cpu"))
        generation = Generation(network, settings)
        prefill = trace(generation.prefill, tf32_matmul=tf32)
        rewind, steps = _trace_decode(generation, settings.new_tokens, tf32=tf32)
    return {"prefill": merged(prefill), "decode": merged((*rewind, *steps))}


def _trace_decode(
    generation: Generation, new_tokens: int, *, tf32: bool
) -> tuple[Kernels, Kernels]:
    """Trace the first and the last step: operations and bytes grow linearly in between."""
    rewind = trace(generation.rewind)
    first = last = trace(lambda: generation.step(0), tf32_matmul=tf32)
    if new_tokens > 1:
        generation.lengthen(new_tokens - 2)
        last = trace(lambda: generation.step(new_tokens - 1), tf32_matmul=tf32)
    return rewind, repeated(averaged(first, last), new_tokens)
