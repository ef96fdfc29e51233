"""How the operands of a call lie in memory, where PyTorch chooses its kernel by that.

An elementwise kernel loads whole vectors where all tensors are of one shape and order
(``gpu_kernel_impl``, aten/src/ATen/native/cuda/CUDALoops.cuh), and a concatenation where all of its
inputs are contiguous (``parallel_cat``, aten/src/ATen/native/cuda/Shape.cu).
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch

from joulelab.tracing.calls import Call
from joulelab.tracing.program import Kind, Layout


def layout_of(call: Call) -> Layout:
    """Return how the operands of ``call`` lie."""
    if call.name in ("cat", "stack"):
        return "plain" if all(each.is_contiguous() for _, each in call.inputs) else "strided"
    return _LAYOUTS[call.kind](call) if call.kind in _LAYOUTS else "plain"


def _elementwise(call: Call) -> Layout:
    result = call.written[0]
    operands = [each for _, each in call.inputs if each.dim()]
    return "plain" if all(_lies_alike(each, result) for each in operands) else "strided"


def _lies_alike(tensor: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether elements of both follow each other in one order, without gaps or repetition."""
    if tensor.numel() != result.numel() or extent(result.shape, result.stride()) != result.numel():
        return False
    if tensor.is_contiguous() and result.is_contiguous():
        return True
    return tensor.shape == result.shape and tensor.stride() == result.stride()


def extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return how many numbers lie between the first and the last of a tensor, both included."""
    if not prod(shape):
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


def _images(call: Call) -> Layout:
    image = call.inputs[0][1]
    is_last = (
        image.dim() == 4
        and not image.is_contiguous()
        and image.is_contiguous(memory_format=torch.channels_last)
    )
    return "channels_last" if is_last else "plain"


def _attention(call: Call) -> Layout:
    names = [name for name, _ in call.inputs]
    return "masked" if {"attn_mask", "attn_bias"} & {*names} else "plain"


_LAYOUTS: Mapping[Kind, Callable[[Call], Layout]] = {
    "elementwise": _elementwise,
    "conv": _images,
    "attention": _attention,
}
