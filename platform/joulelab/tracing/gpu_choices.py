"""Have PyTorch choose the kernels of a GPU where it would choose others for a CPU.

Fake tensors live on the CPU device. There, attention that drops scores out, that learns its mask
or whose values are of another width than its keys falls apart into products, and dropout into
three kernels; on a GPU each is one kernel. There, attention falls apart where rows of its mask are
not side by side (``check_last_dim_stride_equals_1_dense``, sdp_utils_cpp.h). Attention in single or
double precision is fused on a CPU alone.

On a GPU, PyTorch hands recurrent layers to cuDNN, since cuDNN 9.13 in bfloat16 as well (PyTorch
pull request 164411). On a CPU its choice depends on the instructions; all but LSTMs fall apart.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import _VF
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from joulelab.tracing.fast_paths import FAST_PATHS, SEVERAL_KERNELS


@contextmanager
def replaced(module: object, name: str, replacement: object) -> Generator[None]:
    """Let ``name`` of ``module`` be ``replacement`` in a ``with`` block."""
    original = getattr(module, name)
    setattr(module, name, replacement)
    try:
        yield
    finally:
        setattr(module, name, original)


def kept_on_host(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """Yield what an optimizer of PyTorch counts steps in, on the host where it trains on a GPU."""
    for group in optimizer.param_groups:
        if isinstance(optimizer, torch.optim.ASGD) or group.get("capturable") or group.get("fused"):
            continue
        for state in (optimizer.state.get(each, {}) for each in group["params"]):
            yield from (state[name] for name in ("step", "mu_product") if name in state)


_aten = torch.ops.aten


def unfused_on_gpu(
    func: torch._ops.OpOverload, args: Sequence[Any]
) -> Callable[..., object] | None:
    """Return what a GPU runs instead of ``func`` if that is fused on a CPU alone.

    What takes several kernels is in :mod:`joulelab.tracing.fast_paths`. Of attention, on GPUs
    PyTorch's fused kernels take half precision; single precision only where each query head has
    keys of its own; and no double precision.
    """
    if func in FAST_PATHS:
        return FAST_PATHS[func]
    for kernel, applies, instead in SEVERAL_KERNELS:
        if func is kernel and applies(args):
            return instead
    if func not in _UNFUSED:
        return None
    unfused, first = _UNFUSED[func]
    query, key = args[first], args[first + 1]
    shares_keys = query.shape[-3] != key.shape[-3]
    dtypes = (torch.float64, torch.float32) if shares_keys else (torch.float64,)
    return unfused if query.dtype in dtypes else None


def _unfused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Compute attention by products and a softmax, as PyTorch does where nothing is fused."""
    result: tuple[torch.Tensor, ...] = torch.ops.aten._scaled_dot_product_attention_math(  # noqa: SLF001
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=True
    )
    return result


def _unfused_attention_backward(  # noqa: PLR0917
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
    """Differentiate :func:`_unfused_attention`, whose second result are the ``weights``."""
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
    _aten._scaled_dot_product_flash_attention_for_cpu.default: (_unfused_attention, 0),  # noqa: SLF001
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: (  # noqa: SLF001
        _unfused_attention_backward,
        1,
    ),
}
"""What is run instead, and the position of the argument ``query``."""


_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_MODE = 2  # of mkldnn_rnn_layer, which stands for a layer of cuDNN, whose gates its weights tell
Tensors = Sequence[torch.Tensor]
State = tuple[torch.Tensor, torch.Tensor]


def _is_plain(name: str, args: Sequence[Any]) -> bool:
    """Whether a call of a recurrent layer is fake, and neither packed nor projected."""
    x, start, weights, biased, layers = args[:5]
    if not isinstance(x, FakeTensor) or not isinstance(weights, list | tuple):
        return False
    if isinstance(start, torch.Tensor) == (name == "lstm") or not isinstance(layers, int):
        return False
    return len(weights) == (4 if biased else 2) * layers * (2 if args[7] else 1)


def _layers_of_gpu(  # noqa: PLR0917  # PyTorch's order
    x: torch.Tensor,
    start: torch.Tensor | Tensors,
    weights: Tensors,
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """Run recurrent layers as a GPU does, cuDNN's call split into layers and directions."""
    directions = 2 if bidirectional else 1
    per_side = 4 if biased else 2
    values = x.transpose(0, 1) if batch_first else x
    states = _states(start)
    last: list[State] = []
    for layer in range(layers):
        if layer and train and dropout:
            values = functional.dropout(values, dropout)
        sides = []
        for side in range(directions):
            index = layer * directions + side
            own = weights[per_side * index : per_side * (index + 1)]
            outputs, state = _fused(values, own, states[index], train=train, back=side == 1)
            sides.append(outputs)
            last.append(state)
        values = torch.cat(sides, dim=-1) if bidirectional else sides[0]
    kept = list(zip(*last, strict=True))[: 1 if isinstance(start, torch.Tensor) else 2]
    stacked = [torch.stack(each) for each in kept]
    return (values.transpose(0, 1) if batch_first else values, *stacked)


def _states(start: torch.Tensor | Tensors) -> list[State]:
    """Return state and cells of each layer and direction; none but LSTMs have cells."""
    if isinstance(start, torch.Tensor):
        return [(hidden, hidden.new_empty(0)) for hidden in start.unbind()]
    return list(zip(start[0].unbind(), start[1].unbind(), strict=True))


def _fused(
    values: torch.Tensor, weights: Tensors, state: State, *, train: bool, back: bool
) -> tuple[torch.Tensor, State]:
    hidden, cell = state
    biases = weights[2:] or (values.new_empty(0), values.new_empty(0))
    outputs, last_hidden, last_cell, _ = torch.ops.aten.mkldnn_rnn_layer(
        values, *weights[:2], *biases, hidden, cell, back, [], _MODE, hidden.shape[-1], 1,
        len(weights) > 2, False, False, train,
    )  # fmt: skip
    return outputs, (last_hidden, last_cell)


_dropout_of_torch = functional.dropout
_attention_of_torch = functional.scaled_dot_product_attention


@contextmanager
def gpu_choices() -> Generator[None]:
    """Let calls on fake tensors in a ``with`` block run the kernels of a GPU."""
    with ExitStack() as stack:
        for place, name, choice in _CHOICES:
            stack.enter_context(replaced(place, name, choice))
        yield


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
        if attn_mask is not None and attn_mask.stride(-1) != 1 and not enable_gqa:
            result = _unfused_attention(
                query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
            )
            unfused: torch.Tensor = result[0]
            return unfused
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


def _recurrent(name: str) -> Callable[..., object]:
    of_torch: Callable[..., object] = getattr(_VF, name)

    def layers(*args: Any) -> object:
        return _layers_of_gpu(*args) if _is_plain(name, args) else of_torch(*args)

    return layers


_CHOICES: Sequence[tuple[Any, str, Callable[..., object]]] = (
    (functional, "dropout", _dropout),
    (functional, "scaled_dot_product_attention", _attention),
    *((_VF, name, _recurrent(name)) for name in _RECURRENT),
)
