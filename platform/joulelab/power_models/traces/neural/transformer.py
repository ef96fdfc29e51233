"""A small causal transformer over the steps of a schedule."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from joulelab.power_models.traces.neural.network_model import NetworkTraceModel

_WIDTH, _HEADS, _LAYERS = 24, 2, 2
_REACH = 64
"""Steps that are looked back on."""
_CHUNK = 256
"""Steps that are answered at once, so that a long schedule takes no more memory."""


class CausalTransformer(nn.Module):
    """Each step looks at itself and the steps before it, at nearer ones more.

    The distance counts as in Press et al., "Train short, test long" (ICLR 2022), so that a
    schedule may be longer than any that was trained on.

    Args:
        num_features: Of each step.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.enter = nn.Linear(num_features, _WIDTH)
        layer = nn.TransformerEncoderLayer(
            _WIDTH,
            _HEADS,
            dim_feedforward=2 * _WIDTH,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.leave = nn.Linear(_WIDTH, 1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    @override
    def forward(self, features: Tensor) -> Tensor:
        """Return the log-factor of each step, shape ``(b, n)``."""
        found = []
        history = _REACH * _LAYERS
        for start in range(0, features.shape[1], _CHUNK):
            since = max(0, start - history)
            part = features[:, since : start + _CHUNK]
            seen = self.layers(self.enter(part), mask=_looking_back(part.shape[1]))
            found.append(self.leave(seen)[:, start - since :, 0])
        return torch.cat(found, dim=1)


class TransformerModel(NetworkTraceModel):
    """The state machine's level, corrected by a transformer that sees the steps before."""

    name: ClassVar[str] = "transformer"
    num_epochs: ClassVar[int] = 50

    @override
    def network(self, num_features: int) -> nn.Module:
        return CausalTransformer(num_features)


def _looking_back(num_steps: int) -> Tensor:
    """Return what is added to attention: a slope backwards, and nothing from ahead."""
    number = torch.arange(num_steps)
    distance = number[:, None] - number[None, :]
    bias = -0.2 * distance.float()
    return bias.masked_fill((distance < 0) | (distance >= _REACH), float("-inf"))
