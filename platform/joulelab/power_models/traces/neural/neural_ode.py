"""A neural ordinary differential equation: hidden temperatures and clocks that move with the load.

Chen et al., "Neural ordinary differential equations" (NeurIPS 2018); torchdiffeq integrates. Some
hidden values run after what the load asks of them, each at a rate of its own that is learned.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torchdiffeq import odeint
from typing_extensions import override

from joulelab.power_models.traces.neural.network_model import NetworkTraceModel

_HIDDEN, _WIDTH = 4, 24
_STEPS_PER_TIME = (1.0, 3.0, 10.0, 30.0)
"""At the start, the hidden values follow within so many steps."""


class LoadOde(nn.Module):
    """Hidden values that follow the load, and what they make of power.

    Time is counted in steps; within one the load is constant, and the midpoint rule never looks
    beyond it.

    Args:
        num_features: Of each step.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.target = nn.Sequential(
            nn.Linear(num_features + _HIDDEN, _WIDTH), nn.Tanh(), nn.Linear(_WIDTH, _HIDDEN)
        )
        self.log_rate = nn.Parameter(-torch.log(torch.tensor(_STEPS_PER_TIME)))
        self.start = nn.Linear(num_features, _HIDDEN)
        last = nn.Linear(_WIDTH, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.leave = nn.Sequential(nn.Linear(num_features + _HIDDEN, _WIDTH), nn.Tanh(), last)

    @override
    def forward(self, features: Tensor) -> Tensor:
        """Return the log-factor of each step, shape ``(b, n)``."""
        num_steps = features.shape[1]
        rate = torch.exp(self.log_rate).clamp(max=1.0)

        def change(time: Tensor, hidden: Tensor) -> Tensor:
            load = features[:, min(int(time), num_steps - 1)]
            wanted = torch.tanh(self.target(torch.cat([load, hidden], dim=-1)))
            return rate * (wanted - hidden)

        times = torch.arange(num_steps + 1, dtype=features.dtype)
        begin = torch.tanh(self.start(features[:, 0]))
        hidden = odeint(change, begin, times, method="midpoint")[1:].transpose(0, 1)
        seen: Tensor = self.leave(torch.cat([features, hidden], dim=-1))
        return seen[:, :, 0]


class NeuralOdeModel(NetworkTraceModel):
    """The state machine's level, corrected by hidden values that follow the load."""

    name: ClassVar[str] = "neural_ode"
    num_epochs: ClassVar[int] = 40
    window: ClassVar[int] = 32
    learning_rate: ClassVar[float] = 1e-2

    @override
    def network(self, num_features: int) -> nn.Module:
        return LoadOde(num_features)
