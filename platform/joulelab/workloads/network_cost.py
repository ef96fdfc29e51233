"""What a network asks of a device, traced from the very network that would run.

Imports torch, so it is imported only by functions that trace a network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from joulelab.core.cost import PhaseCost
from joulelab.estimator.graph.kernels import kernels_of, merged, repeated
from joulelab.estimator.precision import at_precision, is_quantised
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.trace import fake_tensors, trace_program
from joulelab.estimator.tracing.training import trace_training
from joulelab.workloads import formats
from joulelab.workloads.host_calls import HostCalls
from joulelab.workloads.loop import Loop
from joulelab.workloads.network import NetworkWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPhases:
    """The programs of a network's phases.

    Attributes:
        programs: One execution of each phase; of a loop, one of its steps.
        steps: Steps of each phase that is a loop.
        host_calls: Calls in Python of one execution of each, or of one step.
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

    Raises:
        ConfigError: If an operator of matrix kind has no formula, or a shape depends on values.
    """
    with fake_tensors(), workload.counting():
        network, programs = workload.load(torch.device("cpu"))
        formats.store_in(network, workload.settings.precision)
        calls = {phase: HostCalls() for phase in workload.phases}
        return TracedPhases(
            programs={
                phase: _traced_phase(workload, phase, network, programs[phase], calls[phase])
                for phase in workload.phases
            },
            host_calls={phase: counted.count for phase, counted in calls.items()},
            steps={
                phase: program.num_steps
                for phase, program in programs.items()
                if isinstance(program, Loop)
            },
        )


def _traced_phase(
    workload: NetworkWorkload[Any],
    phase: str,
    network: torch.nn.Module,
    program: Callable[[], object],
    calls: HostCalls,
) -> Program:
    precision = workload.settings.precision
    tf32 = precision == "tf32"
    if isinstance(program, Loop):
        program = _middle_step(program)
    trace = trace_training if phase in workload.training_phases else trace_program
    traced = trace(
        calls.during(program),
        network=network,
        tf32_matmul=tf32,
        tf32_conv=precision != "fp32",
        strict=True,
    )
    # An estimate of fp32 lets convolutions use TF32, PyTorch's default; a measurement does not.
    if precision == "fp32" or is_quantised(precision):  # quantised layers were traced as such
        return replace(traced, precision=precision)
    return at_precision(traced, precision)


def _middle_step(loop: Loop) -> Callable[[], object]:
    middle = loop.num_steps // 2
    loop.skip_to(middle)
    return lambda: loop.step(middle)
