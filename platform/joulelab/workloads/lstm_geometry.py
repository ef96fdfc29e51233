"""The shape of an LSTM that classifies sequences."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmGeometry:
    """An embedding, layers of LSTM, and a linear layer on their last state.

    Attributes:
        vocab_size: Tokens that are told apart.
        embedding_size: Numbers that stand for a token.
        hidden_size: Width of the state of a layer in one direction.
        num_layers: Layers.
        bidirectional: Whether each layer also reads backwards.
        num_classes: Classes.
    """

    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    num_classes: int = 2

    @property
    def num_directions(self) -> int:
        """Ways in which each layer reads."""
        return 2 if self.bidirectional else 1


GEOMETRIES: Mapping[str, LstmGeometry] = {
    "tiny": LstmGeometry(
        vocab_size=32, embedding_size=8, hidden_size=16, num_layers=2, bidirectional=True
    ),
    # bentrevett/pytorch-sentiment-analysis, "Updated Sentiment Analysis": films of IMDb, vectors
    # of GloVe, the 25,000 most frequent words, one for all others and one for padding.
    "sentiment": LstmGeometry(
        vocab_size=25_002, embedding_size=100, hidden_size=256, num_layers=2, bidirectional=True
    ),
    # The large network of arXiv:1409.2329, section 4.1, on the Penn Treebank.
    "large": LstmGeometry(
        vocab_size=10_000, embedding_size=1500, hidden_size=1500, num_layers=2, bidirectional=False
    ),
}
"""Geometries by name; tiny is for tests."""
