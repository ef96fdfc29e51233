"""Kernels launched again and again: matrix products, and passes over device memory."""

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

from typing_extensions import override

from joulelab.core.cost import Data, WorkloadCost
from joulelab.core.number_format import FORMATS
from joulelab.errors import ConfigError
from joulelab.tracing.program import ProgramPhase
from joulelab.workloads.base import LONGEST_RUN_S, check_knobs
from joulelab.workloads.network import TorchWorkload

_SEED = 0
Settings = TypeVar("Settings", bound="GemmSettings | StreamSettings")
ProductPrecision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
# Work of one repeat at most: 50 to 100 ms on an H100 or H200. Small products, bounded by their
# launches of some 5 us each, are bounded by number.
_REPEAT_TFLOP = {"fp64": 4, "fp32": 4, "tf32": 25, "fp16": 50, "bf16": 50, "fp8": 90}
_MOST_PRODUCTS = 10_000
Kernel = Literal["copy", "triad"]
BufferPrecision = Literal["fp64", "fp32", "fp16", "bf16"]
_NUM_BUFFERS = {"copy": 2, "triad": 3}
# Work of one repeat at most: some 50 ms on an H200. Passes over small buffers, bounded
# by their launches, are bounded by number.
_REPEAT_GB = 200
_MOST_PASSES = 1000
_SCALE = 3.0


class LaunchLoop(TorchWorkload[Settings]):
    """Launches one kernel ``num_launches`` times per repeat, or as often as a slow device can.

    A repeat is long enough that the launches, which are asynchronous, hide behind the kernels, and
    no longer than :data:`LONGEST_RUN_S` at the pace of the one before. A subclass makes the
    operands and the launch.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._num_launches = settings.num_launches

    @abstractmethod
    def program(self, device: str) -> Callable[[], object]:
        """Make the operands on ``device`` and return the launch."""

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return (self.settings.phase,)

    @override
    def work(self, phase: str) -> float:
        return self.settings.work_per_launch

    @override
    def executions(self, phase: str) -> int:
        return self.settings.num_launches

    @override
    def parts(self, phase: str) -> int:
        return self.executions(phase)

    @override
    def run(self, phase: str) -> float:
        num, start_s = self._num_launches, time.perf_counter()
        work = self.execute(phase, num)
        affordable = int(num * LONGEST_RUN_S / (time.perf_counter() - start_s))
        self._num_launches = min(max(affordable, 1), self.settings.num_launches)
        return work

    @property
    @override
    def title(self) -> str:
        return type(self).__name__.lower()

    @override
    def prepare(self) -> None:
        from joulelab.workloads import accelerator

        device = accelerator.select_device()
        accelerator.require_precision(self.settings.precision, device)
        accelerator.require_memory(self.settings.resident_b, device, self.title)
        with accelerator.memory_errors(self.title), accelerator.seeded(_SEED, device):
            self.prepared_programs = {self.settings.phase: self.program(str(device))}

    @override
    def cost(self) -> WorkloadCost:
        resident_b = float(self.settings.resident_b)
        return replace(super().cost(), resident_b=resident_b, data=self.settings.data)

    @override
    def traced(self) -> tuple[ProgramPhase, ...]:
        from joulelab.tracing.trace import fake_tensors, trace_program

        settings, times = self.settings, self.settings.num_launches
        with fake_tensors():
            launch = self.program("cpu")
            program = trace_program(launch, tf32_matmul=settings.precision == "tf32", strict=True)
        work = times * settings.work_per_launch
        return (ProgramPhase(phase=settings.phase, work=work, program=program, count=times),)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSettings:
    """Multiply square matrices, C = A B.

    Attributes:
        n: Rows and columns of each matrix.
        precision: Number format of A and B. tf32 is stored as fp32; fp8 (e4m3) gives a C in bf16.
        batch: Independent products in one launch.
        data: What A and B hold. Zeros toggle few wires: an H200 draws 40 % less power on them.
    """

    n: int = 8192
    precision: ProductPrecision = "bf16"
    batch: int = 1
    data: Data = "random"

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.precision == "fp8" and (self.batch != 1 or self.n % 16):
            raise ConfigError(
                "precision fp8 needs batch 1 and n a multiple of 16, "
                f"got batch {self.batch} and n {self.n}."
            )

    @property
    def phase(self) -> str:
        """Name of the only phase."""
        return "gemm"

    @property
    def work_per_launch(self) -> float:
        """TeraFLOP of one launch; a multiplication and an addition count two."""
        return 2 * self.n**3 * self.batch / 1e12

    @property
    def num_launches(self) -> int:
        """Launches in one repeat."""
        wanted = round(_REPEAT_TFLOP[self.precision] / self.work_per_launch)
        return min(max(wanted, 1), _MOST_PRODUCTS)

    @property
    def resident_b(self) -> int:
        """Bytes of A, B and C."""
        operand_b = FORMATS[self.precision].stored_b
        product_b = FORMATS["bf16"].stored_b if self.precision == "fp8" else operand_b
        return self.batch * self.n**2 * (2 * operand_b + product_b)


class Gemm(LaunchLoop[GemmSettings]):
    """Multiplies the same two matrices again and again, and counts teraFLOP."""

    settings_type: ClassVar = GemmSettings
    unit: ClassVar = "TFLOP"

    @override
    def program(self, device: str) -> Callable[[], object]:
        import torch

        from joulelab.workloads.accelerator import operand

        settings = self.settings
        square = (settings.n, settings.n)
        shape = square if settings.batch == 1 else (settings.batch, *square)
        a, b = (operand(shape, settings.precision, settings.data, device) for _ in range(2))
        if settings.precision == "fp8":
            scale = torch.ones((), device=device)
            return lambda: torch._scaled_mm(  # noqa: SLF001
                a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16
            )
        c = torch.empty_like(a)
        product = torch.mm if settings.batch == 1 else torch.bmm
        return lambda: product(a, b, out=c)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Move numbers from memory to memory.

    Attributes:
        kernel: copy is B = A; triad is A = B + 3 C, as in the STREAM benchmark.
        size_gb: Size of each buffer in 1e9 bytes, at least four times the L2 cache.
        precision: Number format of the buffers.
        data: What the buffers hold.
    """

    kernel: Kernel = "copy"
    size_gb: float = 4.0
    precision: BufferPrecision = "fp32"
    data: Data = "random"

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.num_items < 1:
            raise ConfigError(f"size_gb must hold at least one number, got {self.size_gb}.")

    @property
    def num_items(self) -> int:
        """Numbers in each buffer."""
        return int(self.size_gb * 1e9) // FORMATS[self.precision].stored_b

    @property
    def phase(self) -> str:
        """Name of the only phase."""
        return self.kernel

    @property
    def resident_b(self) -> int:
        """Bytes of all buffers."""
        return _NUM_BUFFERS[self.kernel] * self.num_items * FORMATS[self.precision].stored_b

    @property
    def work_per_launch(self) -> float:
        """Gigabytes read and written by one launch: each buffer once."""
        return self.resident_b / 1e9

    @property
    def num_launches(self) -> int:
        """Launches in one repeat."""
        return min(max(round(_REPEAT_GB / self.work_per_launch), 1), _MOST_PASSES)


class Stream(LaunchLoop[StreamSettings]):
    """Passes over its buffers again and again, and counts gigabytes read and written."""

    settings_type: ClassVar = StreamSettings
    unit: ClassVar = "GB"

    @override
    def prepare(self) -> None:
        from joulelab.workloads import accelerator

        accelerator.require_beyond_cache(self.settings.size_gb * 1e9, accelerator.select_device())
        super().prepare()

    @override
    def program(self, device: str) -> Callable[[], object]:
        import torch

        from joulelab.workloads.accelerator import operand

        settings = self.settings

        def buffer() -> torch.Tensor:
            shape = (settings.num_items,)
            return operand(shape, settings.precision, settings.data, device)

        a, b = buffer(), buffer()
        if settings.kernel == "copy":
            return lambda: b.copy_(a)
        c = buffer()
        return lambda: torch.add(b, c, alpha=_SCALE, out=a)
