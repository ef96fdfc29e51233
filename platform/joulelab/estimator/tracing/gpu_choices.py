"""Have PyTorch choose the kernels of a GPU where it would choose others for a CPU.

Fake tensors live on the CPU device. There, attention that drops scores out, that learns its mask
or whose values are of another width than its keys falls apart into products, and dropout into
three kernels; on a GPU each is one kernel. How an LSTM runs is said by
:mod:`joulelab.estimator.tracing.recurrent`.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import _VF
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from joulelab.estimator.tracing.recurrent import is_plain_lstm, lstm_of_gpu

_dropout_of_torch = functional.dropout
_attention_of_torch = functional.scaled_dot_product_attention
_lstm_of_torch = _VF.lstm


@contextmanager
def gpu_choices() -> Generator[None]:
    """Let calls on fake tensors in a ``with`` block run the kernels of a GPU.

    The functions are replaced where modules look them up, in ``torch.nn.functional`` and, of
    recurrent layers, in ``torch._VF``.
    """
    before = [(place, name, getattr(place, name)) for place, name, _ in _CHOICES]
    try:
        for place, name, choice in _CHOICES:
            setattr(place, name, choice)
        yield
    finally:
        for place, name, function in before:
            setattr(place, name, function)


def _dropout(
    input: torch.Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> torch.Tensor:
    if isinstance(input, FakeTensor) and training and not inplace and 0 < p < 1:
        return torch.native_dropout(input, p, training)[0]
    return _dropout_of_torch(input, p, training, inplace)


def _attention(  # noqa: PLR0917
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if _falls_apart(query, key, value, attn_mask):
        return _efficient_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if isinstance(query, FakeTensor):
        dropout_p = 0.0  # in a fused kernel it costs nothing that counts, but it splits a CPU's
    return _attention_of_torch(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _efficient_attention(  # noqa: PLR0917
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Call the kernel that takes masks which learn and values of any width."""
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    keeps_sums = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    result: tuple[torch.Tensor, ...] = torch.ops.aten._scaled_dot_product_efficient_attention(  # noqa: SLF001
        query, key, value, mask, keeps_sums, dropout_p, is_causal, scale=scale
    )
    return result[0]


def _falls_apart(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> bool:
    """Whether a CPU has no fused kernel for it but a GPU has one."""
    if not isinstance(query, FakeTensor) or query.dtype == torch.float64:
        return False
    if not query.dim() == key.dim() == 4 or query.shape[1] != key.shape[1]:
        return False
    learns_mask = mask is not None and mask.requires_grad and torch.is_grad_enabled()
    return learns_mask or query.shape[-1] != value.shape[-1]


def _lstm(*args: Any) -> tuple[torch.Tensor, ...]:
    if is_plain_lstm(*args[:5]):
        return lstm_of_gpu(*args)
    outputs: tuple[torch.Tensor, ...] = _lstm_of_torch(*args)
    return outputs


_CHOICES: Sequence[tuple[Any, str, Callable[..., object]]] = (
    (functional, "dropout", _dropout),
    (functional, "scaled_dot_product_attention", _attention),
    (_VF, "lstm", _lstm),
)
