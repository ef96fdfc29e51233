"""Matrix products, back to back: the heaviest load that a GPU's arithmetic can carry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.core.cost import Data
from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.launch_loop import LaunchLoop

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]

_ITEM_B = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
# Work of one repeat: 50 to 100 ms on an H100 or H200. Small products, bounded by their launches
# of some 5 us each, are bounded by number.
_REPEAT_TFLOP = {"fp64": 4, "fp32": 4, "tf32": 25, "fp16": 50, "bf16": 50, "fp8": 90}
_MOST_LAUNCHES = 10_000


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
    precision: Precision = "bf16"
    batch: int = 1
    data: Data = "random"

    def __post_init__(self) -> None:
        require_count("n", self.n)
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_choice("data", self.data, get_args(Data))
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
        return min(max(wanted, 1), _MOST_LAUNCHES)

    @property
    def resident_b(self) -> int:
        """Bytes of A, B and C."""
        operand_b = _ITEM_B[self.precision]
        product_b = _ITEM_B["bf16"] if self.precision == "fp8" else operand_b
        return self.batch * self.n**2 * (2 * operand_b + product_b)


class Gemm(LaunchLoop[GemmSettings]):
    """Multiplies the same two matrices again and again, and counts teraFLOP."""

    settings_type: ClassVar = GemmSettings
    unit: ClassVar = "TFLOP"
    name: ClassVar = "gemm"

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
