"""What a network asks of a device, traced from the very network that would run.

Imports torch, so it is imported only by functions that trace a network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from joulelab.core.cost import KernelCost
from joulelab.estimator.kernels import kernels_of, merged, repeated
from joulelab.estimator.precision import at_precision
from joulelab.estimator.program import Program
from joulelab.estimator.trace import fake_tensors, trace_program
from joulelab.workloads.network import NetworkWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPhases:
    """The programs of a network's phases.

    Attributes:
        programs: One execution of each phase.
    """

    programs: Mapping[str, Program]

    @property
    def resident_b(self) -> float:
        """Bytes of the weights, the inputs, and the most that one phase holds besides."""
        return max(
            program.parameter_b + program.input_b + program.peak_live_b
            for program in self.programs.values()
        )

    def kernels(self, phase: str, *, times: int) -> tuple[KernelCost, ...]:
        """Return the kernels of ``phase`` executed ``times`` times, equal ones counted."""
        return merged(repeated(kernels_of(self.programs[phase]), times))


def traced(workload: NetworkWorkload[Any]) -> TracedPhases:
    """Trace every phase of ``workload`` on tensors without memory.

    Raises:
        ConfigError: If an operator of matrix kind has no formula, or a shape depends on values.
    """
    precision = workload.settings.precision
    tf32 = precision == "tf32"
    with fake_tensors():
        network, programs = workload.load(torch.device("cpu"))
        return TracedPhases(
            programs={
                phase: at_precision(
                    trace_program(programs[phase], network=network, tf32_matmul=tf32, strict=True),
                    precision,
                )
                for phase in workload.phases
            }
        )
