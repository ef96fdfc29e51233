"""What a network asks of a device, traced from the very network that would run.

Imports torch, so it is imported only by functions that trace a network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from joulelab.core.cost import PhaseCost
from joulelab.tracing.kernels import kernels_of, merged, repeated
from joulelab.tracing.precision import at_precision, is_quantised
from joulelab.tracing.program import Program
from joulelab.tracing.trace import fake_tensors, trace_program
from joulelab.tracing.training import trace_training
from joulelab.workloads import formats
from joulelab.workloads.host_calls import HostCalls
from joulelab.workloads.network import Loop, NetworkWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPhases:
    """The programs of a network's phases; of a phase that is a loop, one of its steps.

    ``host_calls`` counts the calls in Python of one execution of each, or of one step.
    """

    programs: Mapping[str, Program]
    steps: Mapping[str, int]
    host_calls: Mapping[str, int]

    @property
    def resident_b(self) -> float:
        """Bytes of weights, inputs and optimizer state, and the most that a phase holds besides."""
        return max(
            program.parameter_b + program.input_b + program.optimizer_b + program.peak_live_b
            for program in self.programs.values()
        )

    def phase(self, phase: str, *, work: float, times: int) -> PhaseCost:
        """Return the cost of ``phase`` executed ``times`` times, which do ``work`` together."""
        times *= self.steps.get(phase, 1)
        program = self.programs[phase]
        return PhaseCost(
            phase=phase,
            work=work,
            kernels=merged(repeated(kernels_of(program), times)),
            parameter_b=program.parameter_b,
            host_calls=times * self.host_calls[phase],
        )


def traced(workload: NetworkWorkload[Any]) -> TracedPhases:
    """Trace every phase of ``workload`` on tensors without memory.

    Raises ConfigError if an operator of matrix kind has no formula, or a shape depends on values.
    """
    with fake_tensors(), workload.counting():
        network, programs = workload.load(torch.device("cpu"))
        formats.store_in(network, workload.settings.precision)
        found = {
            phase: _traced_phase(workload, phase, network, programs[phase])
            for phase in workload.phases
        }
    return TracedPhases(
        programs={phase: program for phase, (program, _) in found.items()},
        host_calls={phase: calls for phase, (_, calls) in found.items()},
        steps={
            phase: program.num_steps
            for phase, program in programs.items()
            if isinstance(program, Loop)
        },
    )


def trace_counted(
    program: Callable[[], object], *, trace: Callable[..., Program] = trace_program, **options: Any
) -> tuple[Program, int]:
    """Trace ``program`` with these options; return it, and its calls in Python on the host."""
    calls = HostCalls()
    return trace(calls.during(program), strict=True, **options), calls.count


def _traced_phase(
    workload: NetworkWorkload[Any],
    phase: str,
    network: torch.nn.Module,
    program: Callable[[], object],
) -> tuple[Program, int]:
    precision = workload.settings.precision
    traced, calls = trace_counted(
        _middle_step(program) if isinstance(program, Loop) else program,
        trace=trace_training if phase in workload.training_phases else trace_program,
        network=network,
        tf32_matmul=precision == "tf32",
        tf32_conv=precision != "fp32",
    )
    # An estimate of fp32 lets convolutions use TF32, PyTorch's default; a measurement does not.
    if precision == "fp32" or is_quantised(precision):  # quantised layers were traced as such
        return replace(traced, precision=precision), calls
    return at_precision(traced, precision), calls


def _middle_step(loop: Loop) -> Callable[[], object]:
    middle = loop.num_steps // 2
    loop.skip_to(middle)
    return lambda: loop.step(middle)
