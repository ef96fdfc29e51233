"""Copies and triads over buffers far larger than the caches: the load of a GPU's memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.core.cost import Data
from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice, require_positive
from joulelab.workloads.launch_loop import LaunchLoop

Kernel = Literal["copy", "triad"]
Precision = Literal["fp64", "fp32", "fp16", "bf16"]

_NUM_BUFFERS = {"copy": 2, "triad": 3}
_ITEM_B = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
# Work of one repeat: some 50 ms on an H200, 250 ms on a V100. Passes over small buffers, bounded
# by their launches, are bounded by number.
_REPEAT_GB = 200
_MOST_LAUNCHES = 1000
_SCALE = 3.0


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
    precision: Precision = "fp32"
    data: Data = "random"

    def __post_init__(self) -> None:
        require_choice("kernel", self.kernel, get_args(Kernel))
        require_positive("size_gb", self.size_gb)
        require_choice("precision", self.precision, get_args(Precision))
        require_choice("data", self.data, get_args(Data))
        if self.num_items < 1:
            raise ConfigError(f"size_gb must hold at least one number, got {self.size_gb}.")

    @property
    def num_items(self) -> int:
        """Numbers in each buffer."""
        return int(self.size_gb * 1e9) // _ITEM_B[self.precision]

    @property
    def phase(self) -> str:
        """Name of the only phase."""
        return self.kernel

    @property
    def resident_b(self) -> int:
        """Bytes of all buffers."""
        return _NUM_BUFFERS[self.kernel] * self.num_items * _ITEM_B[self.precision]

    @property
    def work_per_launch(self) -> float:
        """Gigabytes read and written by one launch: each buffer once."""
        return self.resident_b / 1e9

    @property
    def num_launches(self) -> int:
        """Launches in one repeat."""
        return min(max(round(_REPEAT_GB / self.work_per_launch), 1), _MOST_LAUNCHES)


class Stream(LaunchLoop[StreamSettings]):
    """Passes over its buffers again and again, and counts gigabytes read and written."""

    settings_type: ClassVar = StreamSettings
    unit: ClassVar = "GB"
    name: ClassVar = "stream"

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
