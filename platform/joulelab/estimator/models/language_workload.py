"""The workloads that generate text as models: the very network and steps that are measured.

Imports torch and transformers, so it is imported only by functions that trace a model.
"""

from dataclasses import replace
from typing import Any

import torch

from joulelab.estimator.models.averaging import averaged_programs
from joulelab.estimator.models.base import Traced
from joulelab.estimator.models.fake_trace import fake_run, shape_text
from joulelab.estimator.precision import is_quantised
from joulelab.estimator.program import Program, ProgramPhase
from joulelab.estimator.tracing.trace import trace_program
from joulelab.workloads.formats import store_in
from joulelab.workloads.generation import Generation
from joulelab.workloads.language import LanguageWorkload


def trace_language(workload: LanguageWorkload[Any]) -> Traced:
    """Trace one prefill and the mean step of one decode, with layers quantised as they run."""
    settings = workload.settings
    as_run = settings.precision if is_quantised(settings.precision) else ""
    with fake_run(settings.model):
        generation = Generation(workload.network(torch.device("cpu")), settings)
        network = generation.network
        store_in(network, settings.precision)
        prefill = trace_program(generation.prefill, network=network, inputs=generation.prompt)
        decode = _decode(generation, settings.new_tokens)
    programs = {"prefill": (prefill, 1), "decode": (decode, settings.new_tokens)}
    phases = tuple(
        ProgramPhase(
            phase=phase,
            work=workload.work(phase),
            program=replace(program, precision=as_run),
            count=count,
        )
        for phase, (program, count) in programs.items()
    )
    return Traced(phases=phases, inputs={"prompt": shape_text(generation.prompt)})


def _decode(generation: Generation, new_tokens: int) -> Program:
    def step(index: int) -> Program:
        return trace_program(
            lambda: generation.step(index),
            network=generation.network,
            inputs=generation.tokens,
            kv=generation.cache,
        )

    generation.rewind()
    first = last = step(0)
    if new_tokens > 1:
        generation.lengthen(new_tokens - 2)
        last = step(new_tokens - 1)
    return averaged_programs(first, last)
