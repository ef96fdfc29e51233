"""How the operands of a call lie in memory, where PyTorch chooses its kernel by that.

An elementwise kernel loads whole vectors where all tensors are of one shape and order
(``gpu_kernel_impl``, aten/src/ATen/native/cuda/CUDALoops.cuh), and a concatenation where all of its
inputs are contiguous (``parallel_cat``, aten/src/ATen/native/cuda/Shape.cu), in its result's order.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch._prims_common import suggest_memory_format

from joulelab.tracing.calls import Call
from joulelab.tracing.program import Kind, Layout


def layout_of(call: Call) -> Layout:
    """Return how the operands of ``call`` lie."""
    if call.name in ("cat", "stack"):
        order = suggest_memory_format(call.written[0])
        is_whole = all(each.is_contiguous(memory_format=order) for _, each in call.inputs)
        return _in_order(order) if is_whole else "strided"
    return _LAYOUTS[call.kind](call) if call.kind in _LAYOUTS else "plain"


def _in_order(order: torch.memory_format) -> Layout:
    return "channels_last" if order is torch.channels_last else "plain"


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


def image_order(*tensors: torch.Tensor) -> torch.memory_format:
    """Return in which order cuDNN convolves: channels innermost if an image or a window is so.

    As ``cudnn_conv_suggest_memory_format`` has it (aten/src/ATen/native/ConvUtils.h).
    """
    orders = [suggest_memory_format(each) for each in tensors if each.dim() == 4]
    return torch.channels_last if torch.channels_last in orders else torch.contiguous_format


def _convolved(call: Call) -> Layout:
    return _in_order(image_order(*(each for _, each in call.inputs)))


def _image(call: Call) -> Layout:
    return _in_order(image_order(call.inputs[0][1]))


def _attention(call: Call) -> Layout:
    names = [name for name, _ in call.inputs]
    return "masked" if {"attn_mask", "attn_bias"} & {*names} else "plain"


_LAYOUTS: Mapping[Kind, Callable[[Call], Layout]] = {
    "elementwise": _elementwise,
    "conv": _convolved,
    "norm": _image,
    "reduction": _image,
    "attention": _attention,
}
