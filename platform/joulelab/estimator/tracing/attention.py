"""Attention: its operations, and where a GPU has no fused kernel for it."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from joulelab.estimator.tracing.calls import Call

_FUSED = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
_aten = torch.ops.aten


def attention_flop(call: Call) -> int | None:
    """Return the operations of one fused attention; ``None`` if they are not known.

    With a causal mask given as a flag, a fused kernel computes only the scores at and below the
    diagonal, so only those are counted (PyTorch's own registry counts all of them). A backward
    call computes five products, of which one repeats the scores.
    """
    if call.name.removesuffix("_backward") not in _FUSED:
        return None
    query, key, value = (call.argument(name).shape for name in ("query", "key", "value"))
    *batch_and_heads, num_queries, head_dim = query
    num_keys, value_dim = key[-2], value[-1]
    scores = num_queries * num_keys
    if call.argument("is_causal"):
        square = min(num_queries, num_keys)  # the rows below it see all keys
        scores = square * (square + 1) // 2 + (num_queries - square) * num_keys
    width = head_dim + value_dim
    if call.name.endswith("_backward"):
        width = 3 * head_dim + 2 * value_dim
    return int(2 * prod(batch_and_heads) * scores * width)


def unfused_on_gpu(
    func: torch._ops.OpOverload, args: Sequence[Any]
) -> Callable[..., object] | None:
    """Return what a GPU runs instead of ``func`` if that is attention fused on a CPU alone.

    On GPUs PyTorch's fused kernels take half precision; single precision only where each query
    head has keys of its own; and no double precision.
    """
    if func not in _UNFUSED:
        return None
    unfused, first = _UNFUSED[func]
    query, key = args[first], args[first + 1]
    shares_keys = query.shape[-3] != key.shape[-3]
    dtypes = (torch.float64, torch.float32) if shares_keys else (torch.float64,)
    return unfused if query.dtype in dtypes else None


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> object:
    """Compute attention by products and a softmax, as PyTorch does where nothing is fused."""
    return torch.ops.aten._scaled_dot_product_attention_math(  # noqa: SLF001
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=True
    )


def _attention_backward(  # noqa: PLR0917
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    weights: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Differentiate :func:`_attention`, whose second result are the ``weights``."""
    num_groups = query.shape[-3] // key.shape[-3]
    keys, values = _repeated(key, num_groups), _repeated(value, num_groups)
    grad_weights = grad_out @ values.mT
    grad_scores = torch.ops.aten._softmax_backward_data(  # noqa: SLF001
        grad_weights, weights, -1, weights.dtype
    )
    grad_scores.mul_(query.shape[-1] ** -0.5 if scale is None else scale)
    grad_keys, grad_values = grad_scores.mT @ query, weights.mT @ grad_out
    return (
        grad_scores @ keys,
        _summed(grad_keys, num_groups),
        _summed(grad_values, num_groups),
    )


def _repeated(heads: torch.Tensor, times: int) -> torch.Tensor:
    return heads if times == 1 else heads.repeat_interleave(times, dim=-3)


def _summed(heads: torch.Tensor, group_size: int) -> torch.Tensor:
    return heads if group_size == 1 else torch.unflatten(heads, -3, (-1, group_size)).sum(dim=-3)


_UNFUSED: dict[torch._ops.OpOverload, tuple[Callable[..., object], int]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu.default: (_attention, 0),  # noqa: SLF001
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: (  # noqa: SLF001
        _attention_backward,
        1,
    ),
}
"""What is run instead, and the position of the argument ``query``."""
