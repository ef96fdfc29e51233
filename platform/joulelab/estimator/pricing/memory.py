"""The device memory that a program needs, and how much of it a device has.

What a process takes beyond its tensors is not in here: the context of the driver (some 0.5 GB on
a GPU) and what the allocator loses to rounding.
"""

from dataclasses import dataclass
from math import floor

from joulelab.errors import ConfigError
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import Program

# What PyTorch hands cuBLAS per stream, aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB where
# NVIDIA recommends that much, else 2 x 4096 + 8 x 16 KiB.
_CUBLAS_B = 8_519_680.0
_CUBLAS_B_BY_ARCHITECTURE = {"Hopper": 33_554_432.0, "Blackwell": 33_554_432.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Device memory that a program needs."""

    weight_b: float
    activation_b: float  # peak of values made while it runs
    kv_b: float
    input_b: float  # inputs, without the cache
    gradient_b: float
    optimizer_b: float
    workspace_b: float  # scratch space of kernels
    capacity_b: float  # what the device has
    timeline_b: tuple[float, ...] = ()  # total bytes after each operator, in order

    @property
    def peak_b(self) -> float:
        """Everything together at its peak."""
        return sum(self.parts.values(), start=0.0)

    @property
    def parts(self) -> dict[str, float]:
        """What takes memory, by what it is called, without what takes none."""
        parts = {
            "weights": self.weight_b,
            "activations": self.activation_b,
            "KV cache": self.kv_b,
            "inputs": self.input_b,
            "gradients": self.gradient_b,
            "optimizer": self.optimizer_b,
            "workspace": self.workspace_b,
        }
        return {name: part_b for name, part_b in parts.items() if part_b > 0}

    @property
    def fits(self) -> bool:
        """Whether the device has that much memory."""
        return self.peak_b <= self.capacity_b


def memory(program: Program, processor: Processor) -> MemoryEstimate:
    """Return what ``program`` needs on ``processor``, before any of it is spread over others.

    Gradients are part of the program's live values and are taken out of its activations, so that
    nothing is counted twice: parameters, inputs, optimizer state, scratch space and the peak of
    live values sum to ``peak_b``. Raises ConfigError if the program's gradients exceed its peak of
    live values.
    """
    activation_b = program.peak_live_b - program.gradient_b
    if activation_b < 0:
        raise ConfigError(
            f"gradient_b is a part of peak_live_b, got {program.gradient_b} of "
            f"{program.peak_live_b} bytes."
        )
    scratch_b = workspace_b(program, processor)
    resident_b = program.parameter_b + program.input_b + program.optimizer_b + scratch_b
    return MemoryEstimate(
        weight_b=program.parameter_b,
        activation_b=activation_b,
        kv_b=program.kv_b,
        input_b=program.input_b - program.kv_b,
        gradient_b=program.gradient_b,
        optimizer_b=program.optimizer_b,
        workspace_b=scratch_b,
        capacity_b=processor.memory.size_b,
        timeline_b=tuple(resident_b + live_b for live_b in program.live_b),
    )


def workspace_b(program: Program, processor: Processor) -> float:
    """Return the scratch space of the kernels of ``program``: that of cuBLAS on a GPU, else 0.

    Convolutions count as implicit GEMM, which gathers its operand while it multiplies and needs
    none (cuDNN's CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM); an algorithm that trades scratch
    space for speed is optional, and falls back to that one where memory is short. Fused attention
    keeps its scores on the die.
    """
    if processor.family != "gpu" or all(one.kind != "gemm" for one in program.operators):
        return 0.0
    return _CUBLAS_B_BY_ARCHITECTURE.get(processor.architecture, _CUBLAS_B)


def largest_batch(
    memory_at_1: MemoryEstimate,
    memory_at_2: MemoryEstimate,
    *,
    batches: tuple[int, int] = (1, 2),
) -> int | None:
    """Return the largest batch that fits, if memory grows by as much with every sample.

    0 if not even one sample fits; ``None`` if memory sets no limit. The two estimates are those of
    ``batches``. Raises ConfigError if they are not of one device, or batches do not increase.
    """
    if not 1 <= batches[0] < batches[1]:
        raise ConfigError(f"batches must be two increasing sizes of at least 1, got {batches}.")
    if memory_at_1.capacity_b != memory_at_2.capacity_b:
        raise ConfigError(
            "Both memory estimates must be of one device, got capacities of "
            f"{memory_at_1.capacity_b} and {memory_at_2.capacity_b} bytes."
        )
    sample_b = (memory_at_2.peak_b - memory_at_1.peak_b) / (batches[1] - batches[0])
    if sample_b <= 0:
        return None if memory_at_2.fits else 0
    spare_b = memory_at_1.capacity_b - memory_at_1.peak_b
    return max(floor(batches[0] + spare_b / sample_b), 0)
