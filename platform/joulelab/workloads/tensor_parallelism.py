"""A network of transformers shared out over the processes of PyTorch's group: tensor parallelism.

Projections into attention and feed-forward layers are cut by columns, those out of them by rows,
after which the processes sum their results; everything else each computes whole (Shoeybi et al.,
Megatron-LM, arXiv:1909.08053, section 3). The estimator cuts the same way.
"""

from typing import Any

import torch
from torch import distributed
from torch._guards import active_fake_mode

from joulelab.errors import ConfigError

_COLUMNS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
)
_ROWS = ("self_attn.o_proj", "mlp.down_proj")


def share(network: Any, num_ranks: int) -> None:
    """Keep of a Llama network what this process computes, one of ``num_ranks`` alike.

    On tensors without memory, of which there is no group, that is the part of the first one.

    Raises:
        ConfigError: If this process is in no group of that size.
    """
    if active_fake_mode() is not None:
        rank, given = 0, num_ranks
    else:
        is_group = distributed.is_initialized()
        rank = distributed.get_rank() if is_group else 0
        given = distributed.get_world_size() if is_group else 1
    if given != num_ranks:
        raise ConfigError(
            f"tensor_parallel {num_ranks} takes a group of {num_ranks} processes, each on a GPU of "
            f"its own, but here are {given}; ask for --gpus-per-trial {num_ranks}."
        )
    for layer in network.model.layers:
        for name in _COLUMNS:
            _cut(layer.get_submodule(name), 0, rank, num_ranks)
        for name in _ROWS:
            part = layer.get_submodule(name)
            _cut(part, 1, rank, num_ranks)
            part.register_forward_hook(_summed)


def _cut(linear: Any, dim: int, rank: int, num_ranks: int) -> None:
    with torch.no_grad():
        own = linear.weight.chunk(num_ranks, dim)[rank].clone()
    linear.weight = torch.nn.Parameter(own, requires_grad=linear.weight.requires_grad)
    linear.out_features, linear.in_features = own.shape


def _summed(_module: Any, _arguments: Any, output: torch.Tensor) -> torch.Tensor:
    if distributed.is_initialized():
        distributed.all_reduce(output)
    return output
