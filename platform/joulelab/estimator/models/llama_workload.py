"""The Llama workload as a model: the very network and steps that are measured.

Imports torch and transformers, so it is imported only by functions that trace a model.
"""

import torch

from joulelab.estimator.models.averaging import averaged_programs
from joulelab.estimator.models.base import Traced
from joulelab.estimator.models.fake_trace import fake_run, shape_text
from joulelab.estimator.program import Program, ProgramPhase
from joulelab.estimator.trace import trace_program
from joulelab.workloads.llama_network import Generation, random_network
from joulelab.workloads.llama_settings import LlamaSettings


def trace_llama(settings: LlamaSettings) -> Traced:
    """Trace one prefill and the mean step of one decode."""
    with fake_run(settings.model):
        network = random_network(settings, torch.device("cpu"))
        generation = Generation(network, settings)
        prefill = trace_program(generation.prefill, network=network, inputs=generation.prompt)
        decode = _decode(generation, network, settings.new_tokens)
    tokens = {"prefill": settings.prompt_tokens, "decode": settings.new_tokens}
    programs = {"prefill": (prefill, 1), "decode": (decode, settings.new_tokens)}
    phases = tuple(
        ProgramPhase(phase=phase, work=settings.batch * tokens[phase], program=program, count=count)
        for phase, (program, count) in programs.items()
    )
    return Traced(phases=phases, inputs={"prompt": shape_text(generation.prompt)})


def _decode(generation: Generation, network: torch.nn.Module, new_tokens: int) -> Program:
    def step(index: int) -> Program:
        return trace_program(
            lambda: generation.step(index),
            network=network,
            inputs=generation.tokens,
            kv=generation.cache,
        )

    generation.rewind()
    first = last = step(0)
    if new_tokens > 1:
        generation.lengthen(new_tokens - 2)
        last = step(new_tokens - 1)
    return averaged_programs(first, last)
