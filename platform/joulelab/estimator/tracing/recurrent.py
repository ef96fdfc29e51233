"""Long short-term memory as a GPU runs it, whatever the machine that traces it.

On a GPU, PyTorch hands an LSTM to cuDNN, since cuDNN 9.13 in bfloat16 as well (PyTorch pull request
164411). On a CPU its choice depends on the instructions.
"""

from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

_LSTM_MODE = 2  # of mkldnn_rnn_layer, which stands for a layer of cuDNN
_WITH_BIASES = 4
Tensors = Sequence[torch.Tensor]
State = tuple[torch.Tensor, torch.Tensor]


def is_plain_lstm(
    x: object, start: object, weights: object, biased: object, layers: object
) -> bool:
    """Return whether a call of ``torch.lstm`` is on fake tensors and :func:`lstm_of_gpu` takes it.

    Packed sequences, projections and layers without biases it does not take.
    """
    if not isinstance(x, FakeTensor) or not isinstance(weights, list | tuple):
        return False
    if isinstance(start, torch.Tensor) or not biased or not isinstance(layers, int):
        return False
    return len(weights) in (_WITH_BIASES * layers, 2 * _WITH_BIASES * layers)


def lstm_of_gpu(  # noqa: PLR0917  # PyTorch's order
    x: torch.Tensor,
    start: Tensors,
    weights: Tensors,
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run the kernels that ``torch.lstm`` runs on a GPU, with its arguments.

    cuDNN's one call is told apart into layers and directions, one operator each.
    """
    del biased
    directions = 2 if bidirectional else 1
    values = x.transpose(0, 1) if batch_first else x
    states = list(zip(start[0].unbind(), start[1].unbind(), strict=True))
    last: list[State] = []
    for layer in range(layers):
        if layer and train and dropout:
            values = functional.dropout(values, dropout)
        sides = []
        for side in range(directions):
            index = layer * directions + side
            own = weights[_WITH_BIASES * index : _WITH_BIASES * (index + 1)]
            outputs, state = _fused(values, own, states[index], train=train, backwards=side == 1)
            sides.append(outputs)
            last.append(state)
        values = torch.cat(sides, dim=-1) if bidirectional else sides[0]
    hidden, cell = (torch.stack(each) for each in zip(*last, strict=True))
    return values.transpose(0, 1) if batch_first else values, hidden, cell


def _fused(
    values: torch.Tensor, weights: Tensors, state: State, *, train: bool, backwards: bool
) -> tuple[torch.Tensor, State]:
    hidden, cell = state
    outputs, last_hidden, last_cell, _ = torch.ops.aten.mkldnn_rnn_layer(
        values, *weights, hidden, cell, backwards, [], _LSTM_MODE, hidden.shape[-1], 1,
        True, False, False, train,
    )  # fmt: skip
    return outputs, (last_hidden, last_cell)
