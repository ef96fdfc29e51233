"""Linear layers that torchao's formats store, and how they are multiplied."""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from typing_extensions import override

from joulelab.tracing.torchvision_shim import hush_torchao

hush_torchao()

from torchao.float8.inference import Float8MMConfig  # noqa: E402
from torchao.prototype.quantization.int4 import Int4OpaqueTensor  # noqa: E402
from torchao.quantization import Float8Tensor, Int4TilePackedTo4dTensor, Int8Tensor, PerRow  # noqa: E402
from torchao.quantization.quantize_.common import KernelPreference  # noqa: E402
from torchao.quantization.quantize_.workflows import QuantizeTensorToFloat8Kwargs  # noqa: E402

_GROUPS = (128, 64, 32)
"""Weights that share a scale under int4: as many as possible."""

_LEAST_ROWS = 17
"""Rows that the int8 product of CUDA needs at least (``_int_mm_out_cuda`` of PyTorch)."""

_PADDED_ROWS = 32
_STEPS = 127
_TINY = torch.finfo(torch.float32).eps  # of a row of zeros


def quantised(layer: torch.nn.Linear, precision: str) -> torch.nn.Linear:
    """Return ``layer`` with its weights in ``precision``: int8, int4 or fp8."""
    if precision == "int8":
        return Int8Linear(layer)
    stored = _fp8(layer.weight) if precision == "fp8" else _int4(layer.weight)
    layer.weight = torch.nn.Parameter(stored, requires_grad=False)
    return layer


class Int8Linear(torch.nn.Linear):
    """A linear layer of torchao's int8 weights, whose inputs are rounded row by row.

    torchao's own product prints its input to look for fake tensors, which waits for the GPU, and
    for few rows it multiplies in single precision. This one rounds as torchao does, symmetrically
    and with a scale for each row, and pads few rows to as many as the kernel needs.
    """

    def __init__(self, layer: torch.nn.Linear) -> None:
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        stored = Int8Tensor.from_hp(layer.weight.detach(), PerRow())
        self.weight = torch.nn.Parameter(stored, requires_grad=False)
        self.register_parameter("bias", layer.bias)
        self.training = layer.training

    @override
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight: Any = self.weight
        rows = input.reshape(-1, self.in_features)
        num_rows = rows.shape[0]
        if num_rows < _LEAST_ROWS:
            rows = torch.nn.functional.pad(rows, (0, 0, 0, _PADDED_ROWS - num_rows))
        steps, step = _rounded(rows)
        sums = torch._int_mm(steps, weight.qdata.t())  # noqa: SLF001
        scaled = sums * step * weight.scale.reshape(1, -1)
        result: torch.Tensor = scaled.to(input.dtype)[:num_rows]
        if self.bias is not None:
            result = result + self.bias
        return result.reshape(*input.shape[:-1], self.out_features)


def _rounded(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``rows`` in 127 steps to either side, and the size of a step of each row."""
    largest = torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True, dtype=torch.float32)
    step = largest.clamp_min_(_TINY) / _STEPS
    return (rows / step).round_().to(torch.int8), step


def _fp8(weight: torch.Tensor) -> Any:
    """Round each row to e4m3 with a scale of its own, and likewise the inputs at each product."""
    inputs = QuantizeTensorToFloat8Kwargs(
        granularity=PerRow(), kernel_preference=KernelPreference.TORCH
    )
    return Float8Tensor.from_hp(
        weight.detach(),
        granularity=PerRow(),
        mm_config=Float8MMConfig(use_fast_accum=True),
        kernel_preference=KernelPreference.TORCH,
        act_quant_kwargs=inputs,
    )


def _int4(weight: torch.Tensor) -> Any:
    """Round groups of weights to 16 steps between their extremes; inputs stay bf16."""
    group = next(size for size in _GROUPS if weight.shape[1] % size == 0)
    if isinstance(weight.data, FakeTensor):
        return _like_packed_on_gpu(weight, group)
    packed = Int4TilePackedTo4dTensor if weight.is_cuda else Int4OpaqueTensor
    return packed.from_hp(weight.detach(), [1, group])


def _like_packed_on_gpu(weight: torch.Tensor, group: int) -> Any:
    """Return a tensor of the sizes that the GPU's packing has; torchao packs on a GPU alone."""
    num_outputs, num_inputs = weight.shape
    padded = -(-num_inputs // 1024) * 1024
    return Int4TilePackedTo4dTensor(
        qdata=weight.new_empty(num_outputs // 8, padded // 128, 32, 4, dtype=torch.int32),
        scale_and_zero=weight.new_empty(padded // group, num_outputs, 2),
        block_size=[1, group],
        shape=weight.shape,
    )
