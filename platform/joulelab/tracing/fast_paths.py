"""What PyTorch runs on a GPU in place of modules of attention, and as several kernels.

``MultiheadAttention`` and ``TransformerEncoderLayer`` hand themselves over whole in inference,
unless they are compiled. On a GPU the first becomes a product for queries, keys and values, fused
attention, and a product (``native_multi_head_attention_cuda``, aten/src/ATen/native/transformers/
cuda/attention.cu); with a mask or weights, products and a softmax. The second adds norms and a
network of two products around it (``transformer_encoder_layer_forward``, .../transformer.cpp).

Where it runs one kernel on a CPU, it may run several: it calls cuDNN without the bias of a
convolution and adds it by a kernel of its own (``cudnn_convolution``,
aten/src/ATen/native/Convolution.cpp), and copies strided images before it convolves them. It
rolls along one axis after the other (``roll_common``,
aten/src/ATen/native/TensorTransformations.h), normalises over layers and groups only what is
contiguous, which it copies first (``layer_norm_cuda``; ``native_group_norm``, whose result is
contiguous where a CPU's lies as the image did), and looks for rows without any score after a
softmax that is to be safe (``_safe_softmax``).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from joulelab.tracing.layouts import image_order

_aten = torch.ops.aten
Tensors = tuple[torch.Tensor, torch.Tensor | None]


@contextmanager
def without_fast_paths() -> Generator[None]:
    """Let modules run their own code in a ``with`` block, as they do while they are compiled."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _multi_head_attention(  # noqa: PLR0917  # PyTorch's order
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Tensors:
    """Attend within one sequence: the fast path is taken where all three are the same tensor."""
    del key, value, average_attn_weights, mask_type
    projected = functional.linear(query, qkv_weight, qkv_bias)
    queries, keys, values = (
        part.view(*part.shape[:2], num_head, embed_dim // num_head).transpose(1, 2)
        for part in projected.chunk(3, -1)
    )
    weights = None
    if mask is None and not need_weights:
        found = functional.scaled_dot_product_attention(queries, keys, values)
    else:  # scaled by the kernel that takes the three apart
        queries = queries.contiguous().mul_(queries.shape[-1] ** -0.5)
        weights = torch.softmax(queries @ keys.contiguous().mT, -1)
        found = weights @ values.contiguous()
    together = found.transpose(1, 2).reshape(query.shape)
    return functional.linear(together, proj_weight, proj_bias), weights


def _encoder_layer(src: torch.Tensor, embed_dim: int, num_heads: int, *args: Any) -> torch.Tensor:
    """Run a layer on PyTorch's arguments: those of attention, of norms, and of its network."""
    (qkv, qkv_bias, projection, projection_bias), (use_gelu, norm_first, eps) = args[:4], args[4:7]
    *norms, wide, bias, narrow, last = args[7:15]
    mask = args[15] if len(args) > 15 else None

    def norm(values: torch.Tensor, index: int) -> torch.Tensor:
        weight, shift = norms[2 * index : 2 * index + 2]
        return functional.layer_norm(values, (embed_dim,), weight, shift, eps)

    first = norm(src, 0) if norm_first else src
    attended, _ = _multi_head_attention(
        *(first, first, first, embed_dim, num_heads, qkv, qkv_bias, projection, projection_bias),
        mask=mask,
        need_weights=False,
    )
    attended.add_(src)
    residual = attended if norm_first else norm(attended, 0)
    second = norm(residual, 1) if norm_first else residual
    inner = _aten._addmm_activation(  # noqa: SLF001
        bias, second.flatten(0, 1), wide.t(), use_gelu=use_gelu
    )
    found = functional.linear(inner, narrow, last).view(src.shape).add_(residual)
    return found if norm_first else norm(found, 1)


FAST_PATHS: Mapping[torch._ops.OpOverload, Callable[..., object]] = {
    _aten._native_multi_head_attention.default: _multi_head_attention,  # noqa: SLF001
    _aten._transformer_encoder_layer_fwd.default: _encoder_layer,  # noqa: SLF001
}
"""What a GPU runs instead."""


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


def _norm_of_copy(norm: torch._ops.OpOverload, tensor: torch.Tensor, *args: Any) -> object:
    return norm(tensor.contiguous(), *args)


def _safe_softmax(tensor: torch.Tensor, axis: int, dtype: torch.dtype | None = None) -> object:
    shares = torch.softmax(tensor, axis, dtype=dtype)
    is_empty = torch.isneginf(tensor).all(dim=axis, keepdim=True)
    return torch.where(is_empty, torch.zeros((), dtype=shares.dtype), shares)


def _convolves_strided(args: Sequence[Any]) -> bool:
    image, weight = args[:2]
    return not image.is_contiguous(memory_format=image_order(image, weight))


def _convolution_of_copy(image: torch.Tensor, weight: torch.Tensor, *args: Any) -> object:
    copied = image.contiguous(memory_format=image_order(image, weight))
    return _aten.convolution.default(copied, weight, *args)


def _distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply, as ``_euclidean_dist`` does (aten/src/ATen/native/Distance.cpp)."""
    squares, others = (each.pow(2).sum(-1, keepdim=True) for each in (x, y))
    left = torch.cat([x.mul(-2), squares, torch.ones_like(squares)], dim=-1)
    right = torch.cat([y, torch.ones_like(others), others], dim=-1)
    return (left @ right.mT).clamp_min_(0).sqrt_()


SEVERAL_KERNELS: Sequence[
    tuple[torch._ops.OpOverload, Callable[[Sequence[Any]], bool], Callable[..., object]]
] = (
    (_aten.convolution.default, _convolves_strided, _convolution_of_copy),
    (_aten.convolution.default, lambda args: args[2] is not None, _convolution_and_bias),
    (_aten.roll.default, lambda args: len(args) > 2 and len(args[2]) > 1, _rolls),
    *(
        (norm, lambda args: not args[0].is_contiguous(), partial(_norm_of_copy, norm))
        for norm in (_aten.native_layer_norm.default, _aten.native_group_norm.default)
    ),
    (_aten._safe_softmax.default, lambda _: True, _safe_softmax),  # noqa: SLF001
    (_aten._euclidean_dist.default, lambda _: True, _distances),  # noqa: SLF001
)
"""What takes several kernels on a GPU, for which arguments, and what they do."""
