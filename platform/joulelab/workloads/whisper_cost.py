"""What a Whisper network asks of a device, traced from the very network that would run.

Imports torch and transformers, so it is imported only by functions that trace a network.
"""

from collections.abc import Callable
from typing import Any

import torch

from joulelab.core.cost import PhaseCost
from joulelab.estimator.graph.kernels import averaged, kernels_of, merged, repeated
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.trace import fake_tensors, trace_program
from joulelab.workloads import formats
from joulelab.workloads.host_calls import HostCalls
from joulelab.workloads.whisper import Whisper
from joulelab.workloads.whisper_network import Recognition


def trace_phases(workload: Whisper) -> tuple[tuple[PhaseCost, ...], float]:
    """Return the costs of all windows of a run, and the most bytes held."""
    settings, calls = workload.settings, HostCalls()
    with fake_tensors():
        recognition = Recognition(workload.network(torch.device("cpu")), settings)
        formats.store_in(recognition.network, settings.precision)

        def traced(program: Callable[[], object], **state: Any) -> Program:
            tf32 = settings.precision == "tf32"
            return trace_program(
                calls.during(program),
                network=recognition.network,
                tf32_matmul=tf32,
                tf32_conv=tf32,
                strict=True,
                **state,
            )

        encoder = traced(recognition.encode, inputs=(recognition.features,))
        encoder_calls = calls.restarted()
        start = traced(recognition.start)
        start_calls = calls.restarted()
        first, last = _trace_steps(recognition, traced, settings.new_tokens - 1)
    decoder, step_calls = kernels_of(start), calls.restarted()
    if settings.new_tokens > 1:
        steps = averaged(kernels_of(first), kernels_of(last))
        decoder += repeated(steps, settings.new_tokens - 1)
        num_traced = 1 if last is first else 2
        start_calls += (settings.new_tokens - 1) * step_calls // num_traced
    held_b = max(
        each.parameter_b + each.input_b + each.peak_live_b for each in (encoder, start, last)
    )
    times = settings.num_windows
    phases = tuple(
        PhaseCost(
            phase=phase,
            work=times * workload.work(phase),
            kernels=merged(repeated(kernels, times)),
            parameter_b=encoder.parameter_b,
            host_calls=times * num_calls,
        )
        for phase, kernels, num_calls in (
            ("encoder", kernels_of(encoder), encoder_calls),
            ("decoder", decoder, start_calls),
        )
    )
    return phases, held_b


def _trace_steps(
    recognition: Recognition, traced: Callable[..., Program], num_steps: int
) -> tuple[Program, Program]:
    """Trace the first and the last step: operations and bytes grow linearly in between."""
    first = last = traced(recognition.step, kv=recognition.cache)
    if num_steps > 1:
        recognition.lengthen(num_steps - 2)
        last = traced(recognition.step, kv=recognition.cache)
    return first, last
