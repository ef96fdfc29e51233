"""What a workload asks of a device: operations by unit, bytes, kernel launches.

A cost is a property of the program alone, counted from a trace of it. What it takes in
seconds and joules is the business of the device that runs it, real, simulated or estimated.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

Pipe = Literal[
    "fp64",
    "fp32",
    "fp16",
    "tensor_fp64",
    "tensor_tf32",
    "tensor_fp16",
    "tensor_bf16",
    "tensor_fp8",
    "tensor_int8",
]
"""Execution unit and number format: plain pipes, and tensor-core formats."""

Data = Literal["random", "zeros"]
"""What the operands hold; zeros toggle few wires and draw far less power."""

PIPES: tuple[Pipe, ...] = get_args(Pipe)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCost:
    """Kernels of one kind and size.

    Attributes:
        name: What they compute: ``"gemm"``, ``"attention"``, ``"elementwise"``, ...
        pipe: Where their operations run.
        flop: Operations of one launch (a fused multiply-add counts two), >= 0.
        dram_b: Bytes that one launch reads from and writes to device memory, >= 0.
        count: Launches of this kernel in one execution of its phase, >= 1.
    """

    name: str
    pipe: Pipe
    flop: float
    dram_b: float
    count: int = 1

    def __post_init__(self) -> None:
        if self.pipe not in PIPES:
            raise unknown_name("pipe", self.pipe, PIPES)
        if not (self.flop >= 0 and self.dram_b >= 0 and self.count >= 1):
            raise ConfigError(
                "flop and dram_b must not be negative and count at least 1, "
                f"got {self.flop=}, {self.dram_b=}, {self.count=}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCost:
    """One phase of a workload, executed once.

    Attributes:
        phase: Name of the phase, e.g. ``"prefill"``.
        work: Units of work that one execution does, > 0.
        kernels: What it launches, in no particular order. Empty for a phase that only waits.
        wait_s: Seconds in which the phase leaves the device alone, >= 0.
    """

    phase: str
    work: float
    kernels: tuple[KernelCost, ...] = ()
    wait_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.work > 0:
            raise ConfigError(f"work must be positive, got {self.work} in phase {self.phase!r}.")
        if not (self.kernels or self.wait_s > 0):
            raise ConfigError(f"Phase {self.phase!r} has neither kernels nor wait_s.")

    @property
    def flop(self) -> float:
        """Operations of one execution."""
        return sum(kernel.flop * kernel.count for kernel in self.kernels)

    @property
    def dram_b(self) -> float:
        """Bytes that one execution moves to and from device memory."""
        return sum(kernel.dram_b * kernel.count for kernel in self.kernels)

    @property
    def num_launches(self) -> int:
        """Kernels that one execution launches."""
        return sum(kernel.count for kernel in self.kernels)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCost:
    """All phases of a configured workload.

    Attributes:
        unit: What ``work`` counts, in the singular: ``"token"``, ``"TFLOP"``.
        phases: One entry per phase, in the order in which they run.
        resident_b: Bytes of device memory that the workload holds, >= 0.
        data: What the operands hold.
    """

    unit: str
    phases: tuple[PhaseCost, ...]
    resident_b: float
    data: Data = "random"

    def phase(self, name: str) -> PhaseCost:
        """Return the phase called ``name``.

        Raises:
            UnknownNameError: If there is none.
        """
        for phase in self.phases:
            if phase.phase == name:
                return phase
        raise unknown_name("phase", name, [phase.phase for phase in self.phases])
