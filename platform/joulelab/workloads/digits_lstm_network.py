"""The network of the workload that reads digits row by row, and how it is trained.

Imports torch, so it is imported only by functions that run or trace a network.
"""

from typing import Any

import torch
from torch import nn
from typing_extensions import override

from joulelab.workloads.digits import NUM_CLASSES, SIDE_PX, training_digits
from joulelab.workloads.digits_lstm import DigitsLstmSettings
from joulelab.workloads.digits_tensors import as_tensors, noisy_batch
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.training import Recipe, load_trained

_WIDTH = 64
_BATCH = 64
_LARGEST_NOISE = 0.2  # share of the range of a pixel


class RowReader(nn.Module):
    """Reads rows, and says after each of them what the digit is.

    Args:
        dtype: Number format of its weights.
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.lstm = nn.LSTM(SIDE_PX, _WIDTH, batch_first=True, dtype=dtype)
        self.hidden = nn.Linear(_WIDTH, _WIDTH, dtype=dtype)
        self.classes = nn.Linear(_WIDTH, NUM_CLASSES, dtype=dtype)

    @override
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes after the last of ``rows``, shape (batch, rows, 8)."""
        return self.decided(self.lstm(rows)[0][:, -1])

    def decided(self, states: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes in ``states`` of the LSTM, shape (..., width)."""
        scores: torch.Tensor = self.classes(torch.relu(self.hidden(states)))
        return scores


def recipe() -> Recipe:
    """Return how the network is trained: to decide after every row, on digits with noise."""
    images, labels = as_tensors(training_digits())

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        noisy, chosen = noisy_batch(images, _BATCH, _LARGEST_NOISE, generator)
        states, _ = network.lstm(noisy[:, 0])
        scores = network.decided(states)
        targets = labels[chosen, None].expand(-1, SIDE_PX)
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    return Recipe(
        name="digits-lstm",
        build=RowReader,
        loss=loss,
        num_steps=1500,
        peak_rate=5e-3,
        sources=(
            "workloads/digits_lstm_network.py",
            "workloads/digits_tensors.py",
            "workloads/digits.py",
        ),
    )


def load_network(settings: DigitsLstmSettings, device: torch.device) -> RowReader:
    """Return the network on ``device`` in the format of the precision."""
    with device:
        network = RowReader(storage_dtype(settings.precision))
    network.train(mode=False)
    if settings.weights is not None:
        load_trained(network, recipe())
    return network
