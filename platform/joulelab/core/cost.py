"""What a workload and its requests ask of a device: operations by unit, bytes, kernel launches.

A cost is a property of the program alone, counted from a trace of it. What it takes in
seconds and joules is the business of the device that runs it, real, simulated or estimated.
"""

from collections.abc import Mapping
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
        dram_b: Bytes that one launch reads and writes, >= 0. That a cache may serve a part of
            them is the device's business.
        count: Launches of this kernel in one execution of its phase, >= 1.
        weight_b: Bytes among ``dram_b`` that are read of parameters, >= 0.
        written_b: Bytes among ``dram_b`` that are written, >= 0.
        dtype: Number format of the operands, as PyTorch names it; empty if unknown.
        reread_b: Bytes beyond ``dram_b`` that its own way of blocking reads again, at about the
            pace of the last cache, >= 0.
        shape: Of matrix work: independent products, rows, columns, length of a dot product (as
            :class:`joulelab.tracing.program.MatrixShape`); ``None`` of other work or unknown.
        steps: Loads that each thread waits for one after the other where a kernel has no other
            threads to run meanwhile, >= 0; 0 where there are, or if unknown.
    """

    name: str
    pipe: Pipe
    flop: float
    dram_b: float
    count: int = 1
    weight_b: float = 0.0
    written_b: float = 0.0
    dtype: str = ""
    reread_b: float = 0.0
    shape: tuple[float, float, float, float] | None = None
    steps: float = 0.0

    def __post_init__(self) -> None:
        if self.pipe not in PIPES:
            raise unknown_name("pipe", self.pipe, PIPES)
        if not (self.flop >= 0 and self.dram_b >= 0 and self.count >= 1):
            raise ConfigError(
                "flop and dram_b must not be negative and count at least 1, "
                f"got {self.flop=}, {self.dram_b=}, {self.count=}."
            )
        if self.steps < 0:
            raise ConfigError(f"steps must not be negative, got {self.steps}.")
        if min(self.weight_b, self.written_b, self.read_b, self.reread_b) < 0:
            raise ConfigError(
                "weight_b, written_b and reread_b must not be negative and the first two are "
                f"parts of dram_b, got {self.weight_b=}, {self.written_b=}, {self.reread_b=}, "
                f"{self.dram_b=}."
            )

    @property
    def read_b(self) -> float:
        """Bytes of activations that one launch reads."""
        return self.dram_b - self.weight_b - self.written_b


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCost:
    """One phase of a workload, executed once.

    Attributes:
        phase: Name of the phase, e.g. ``"prefill"``.
        work: Units of work that one execution does, > 0.
        kernels: What it launches, in no particular order. Empty for a phase that only waits.
        wait_s: Seconds in which the phase leaves the device alone, >= 0.
        num_graphs: Graphs of kernels that the host launches as wholes, and which hold all of
            ``kernels``; 0 if it launches every kernel by itself.
        parameter_b: Bytes of all parameters of the program, >= 0; 0 if unknown.
        host_calls: Calls of Python functions, and of compiled ones from Python, with which the
            host reaches the launches, >= 0.
        num_devices: Devices that share the phase, >= 1; its kernels are those of one of them, and
            kernels called ``"all_reduce"`` sum what they write over all.
    """

    phase: str
    work: float
    kernels: tuple[KernelCost, ...] = ()
    wait_s: float = 0.0
    num_graphs: int = 0
    parameter_b: float = 0.0
    host_calls: int = 0
    num_devices: int = 1

    def __post_init__(self) -> None:
        if min(self.num_graphs, self.parameter_b, self.host_calls) < 0:
            raise ConfigError(
                "num_graphs, parameter_b and host_calls must not be negative, "
                f"got {self.num_graphs=}, {self.parameter_b=}, {self.host_calls=}."
            )
        if self.num_devices < 1:
            raise ConfigError(f"num_devices must be at least 1, got {self.num_devices}.")
        if not self.work > 0:
            raise ConfigError(f"work must be positive, got {self.work} in phase {self.phase!r}.")
        if not (self.kernels or self.wait_s > 0):
            raise ConfigError(f"Phase {self.phase!r} has neither kernels nor wait_s.")

    @property
    def sums_over_devices(self) -> bool:
        """Whether an execution sums anything over the devices that share it."""
        return self.num_devices > 1 and any(one.name == "all_reduce" for one in self.kernels)

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
        """Return the phase called ``name``; UnknownNameError if there is none."""
        for phase in self.phases:
            if phase.phase == name:
                return phase
        raise unknown_name("phase", name, [phase.phase for phase in self.phases])


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Work from the arrival of a request, or of a batch side by side, to its end.

    Phases are measured apart, per unit of work each. A request that reads 512 tokens and generates
    64 takes 512 times what a token of the prefill takes, and 64 times what one of the decode does.

    Attributes:
        units: Units of work of each phase, those of the whole batch.
        size: Units of work that the whole counts as; what is said per unit is the total over it.
        num_generated: Tokens that each sequence generates, one after the other; ``None`` where
            nothing is generated.
    """

    units: Mapping[str, float]
    size: float
    num_generated: int | None = None

    def __post_init__(self) -> None:
        if not self.units or not all(units > 0 for units in (self.size, *self.units.values())):
            raise ConfigError(f"A request needs work, got {dict(self.units)} of {self.size:g}.")

    def per_unit(self, phase: str) -> float:
        """Units of ``phase`` that one unit of the whole holds."""
        return self.units[phase] / self.size
