"""What a Whisper network asks of a device, traced from the very network that would run.

Imports torch and transformers, so it is imported only by functions that trace a network.
"""

from collections.abc import Callable
from typing import Any

import torch

from joulelab.core.cost import KernelCost
from joulelab.estimator.graph.kernels import averaged, kernels_of, merged, repeated
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.trace import fake_tensors, trace_program
from joulelab.workloads import formats
from joulelab.workloads.whisper import Whisper
from joulelab.workloads.whisper_network import Recognition

Kernels = tuple[KernelCost, ...]


def trace_phases(workload: Whisper) -> tuple[dict[str, Kernels], float]:
    """Return the kernels of one window by phase, and the most bytes held."""
    settings = workload.settings
    with fake_tensors():
        recognition: Recognition = workload.recognition(torch.device("cpu"))
        formats.store_in(recognition.network, settings.precision)

        def traced(program: Callable[[], object], **state: Any) -> Program:
            tf32 = settings.precision == "tf32"
            return trace_program(
                program,
                network=recognition.network,
                tf32_matmul=tf32,
                tf32_conv=tf32,
                strict=True,
                **state,
            )

        encoder = traced(recognition.encode, inputs=(recognition.features,))
        start = traced(recognition.start)
        first, last = _trace_steps(recognition, traced, settings.new_tokens - 1)
    decoder = kernels_of(start)
    if settings.new_tokens > 1:
        steps = averaged(kernels_of(first), kernels_of(last))
        decoder += repeated(steps, settings.new_tokens - 1)
    held_b = max(
        each.parameter_b + each.input_b + each.peak_live_b for each in (encoder, start, last)
    )
    return {"encoder": merged(kernels_of(encoder)), "decoder": merged(decoder)}, held_b


def _trace_steps(
    recognition: Recognition, traced: Callable[..., Program], num_steps: int
) -> tuple[Program, Program]:
    """Trace the first and the last step: operations and bytes grow linearly in between."""
    first = last = traced(recognition.step, kv=recognition.cache)
    if num_steps > 1:
        recognition.lengthen(num_steps - 2)
        last = traced(recognition.step, kv=recognition.cache)
    return first, last
