"""An LSTM that classifies sequences.

Imports torch, so it is imported only by functions that run or trace a network.
"""

import torch
from torch import nn
from typing_extensions import override

from joulelab.workloads.lstm import LstmGeometry
from joulelab.workloads.network import Programs


class LstmClassifier(nn.Module):
    """Embeds tokens, reads them, and classifies the last state of the last layer."""

    def __init__(self, geometry: LstmGeometry, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(geometry.vocab_size, geometry.embedding_size, dtype=dtype)
        self.lstm = nn.LSTM(
            geometry.embedding_size,
            geometry.hidden_size,
            geometry.num_layers,
            batch_first=True,
            bidirectional=geometry.bidirectional,
            dtype=dtype,
        )
        read = geometry.num_directions * geometry.hidden_size
        self.classes = nn.Linear(read, geometry.num_classes, dtype=dtype)
        self._num_directions = geometry.num_directions

    @override
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, shape (batch, classes), of tokens (batch, tokens)."""
        _, (hidden, _) = self.lstm(self.embedding(tokens))
        last = hidden[-self._num_directions :]
        scores: torch.Tensor = self.classes(last.transpose(0, 1).flatten(1))
        return scores


def programs(network: LstmClassifier, batch: int, sequence_tokens: int) -> Programs:
    """Return inference and the forward part of training, on random tokens and classes.

    Both are made on the device that PyTorch makes tensors on.
    """
    vocab_size, num_classes = network.embedding.num_embeddings, network.classes.out_features
    tokens = torch.randint(vocab_size, (batch, sequence_tokens))
    classes = torch.randint(num_classes, (batch,))

    def inference() -> torch.Tensor:
        network.train(mode=False)
        scores: torch.Tensor = network(tokens)
        return scores

    def loss() -> torch.Tensor:
        network.train()  # cuDNN keeps what its backward pass needs only then
        return nn.functional.cross_entropy(network(tokens), classes)

    return {"inference": inference, "train": loss}
