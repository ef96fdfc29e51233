"""Attention: its operations, and where a GPU has no fused kernel for it."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from joulelab.estimator.calls import Call

_FUSED_ON_CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"


def attention_flop(call: Call) -> int:
    """Return the operations of one fused attention.

    With a causal mask given as a flag, a fused kernel computes only the scores at and below the
    diagonal, so only those are counted (PyTorch's own registry counts all of them).
    """
    query, key, value = (call.argument(name).shape for name in ("query", "key", "value"))
    *batch_and_heads, num_queries, head_dim = query
    num_keys, value_dim = key[-2], value[-1]
    scores = num_queries * num_keys
    if call.argument("is_causal"):
        scores = sum(min(row + 1, num_keys) for row in range(num_queries))
    return int(2 * prod(batch_and_heads) * scores * (head_dim + value_dim))


def is_unfused_on_gpu(func: torch._ops.OpOverload, args: Sequence[Any]) -> bool:
    """Whether ``func`` is attention that is fused on a CPU but not on a GPU.

    On GPUs PyTorch's fused kernels take half precision; single precision only where each query
    head has keys of its own; and no double precision.
    """
    if func._schema.name != _FUSED_ON_CPU:  # noqa: SLF001
        return False
    query, key = args[0], args[1]
    shares_keys = query.shape[-3] != key.shape[-3]
    unfused = (torch.float64, torch.float32) if shares_keys else (torch.float64,)
    return query.dtype in unfused


def unfused_attention(
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
