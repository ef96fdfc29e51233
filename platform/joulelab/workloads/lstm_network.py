"""An LSTM that classifies sequences."""

import torch
from torch import nn
from typing_extensions import override

from joulelab.workloads.network import Programs

_NUM_LAYERS = 2
_NUM_CLASSES = 2


class LstmClassifier(nn.Module):
    """Embeds tokens, reads them, and classifies the last state of the second of two layers."""

    def __init__(
        self,
        *,
        vocab_size: int,
        embedding_size: int,
        hidden_size: int,
        num_directions: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size, dtype=dtype)
        self.lstm = nn.LSTM(
            embedding_size,
            hidden_size,
            _NUM_LAYERS,
            batch_first=True,
            bidirectional=num_directions == 2,
            dtype=dtype,
        )
        self.classes = nn.Linear(num_directions * hidden_size, _NUM_CLASSES, dtype=dtype)
        self._num_directions = num_directions

    @override
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, shape (batch, classes), of tokens (batch, tokens)."""
        _, (hidden, _) = self.lstm(self.embedding(tokens))
        last = hidden[-self._num_directions :]
        scores: torch.Tensor = self.classes(last.transpose(0, 1).flatten(1))
        return scores


def programs(network: LstmClassifier, batch: int, sequence_tokens: int) -> Programs:
    """Return inference and the forward part of training, on PyTorch's current device."""
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
