"""What PyTorch runs as several kernels on a GPU where it would run one on a CPU.

It calls cuDNN without the bias of a convolution and adds it by a kernel of its own
(``cudnn_convolution``, aten/src/ATen/native/Convolution.cpp), and copies a strided sequence before
it convolves it. It rolls along one axis after the other (``roll_common``,
aten/src/ATen/native/TensorTransformations.h), normalises over layers only what is contiguous, which
it copies first (``layer_norm_cuda``), and looks for rows without any score after a softmax that is
to be safe (``_safe_softmax``).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

_aten = torch.ops.aten


def _convolution_and_bias(
    image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *args: Any
) -> torch.Tensor:
    result = _aten.convolution.default(image, weight, None, *args)
    positions = [1] * (result.dim() - 2)
    added: torch.Tensor = result.add_(bias.view(1, -1, *positions))
    return added


def _rolls(tensor: torch.Tensor, shifts: Sequence[int], axes: Sequence[int]) -> torch.Tensor:
    for shift, axis in zip(shifts, axes, strict=True):
        tensor = _aten.roll.default(tensor, [shift], [axis])
    return tensor


def _norm_of_copy(tensor: torch.Tensor, *args: Any) -> object:
    return _aten.native_layer_norm.default(tensor.contiguous(), *args)


def _safe_softmax(tensor: torch.Tensor, axis: int, dtype: torch.dtype | None = None) -> object:
    shares = torch.softmax(tensor, axis, dtype=dtype)
    is_empty = torch.isneginf(tensor).all(dim=axis, keepdim=True)
    return torch.where(is_empty, torch.zeros((), dtype=shares.dtype), shares)


def _is_strided_sequence(values: torch.Tensor) -> bool:
    """Whether it has one dimension to convolve over and is not contiguous: images may be so."""
    return values.dim() == 3 and not values.is_contiguous()


def _convolution_of_copy(sequence: torch.Tensor, *args: Any) -> object:
    return _aten.convolution.default(sequence.contiguous(), *args)


SEVERAL_KERNELS: Sequence[
    tuple[torch._ops.OpOverload, Callable[[Sequence[Any]], bool], Callable[..., object]]
] = (
    (_aten.convolution.default, lambda args: _is_strided_sequence(args[0]), _convolution_of_copy),
    (_aten.convolution.default, lambda args: args[2] is not None, _convolution_and_bias),
    (_aten.roll.default, lambda args: len(args) > 2 and len(args[2]) > 1, _rolls),
    (_aten.native_layer_norm.default, lambda args: not args[0].is_contiguous(), _norm_of_copy),
    (_aten._safe_softmax.default, lambda _: True, _safe_softmax),  # noqa: SLF001
)
"""What takes several kernels on a GPU, for which arguments, and what they do."""
