"""Classification of sequences by a long short-term memory, run and trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.core.number_format import FloatPrecision
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

Model = Literal["tiny", "sentiment", "large"]


GEOMETRIES: Mapping[str, Mapping[str, int]] = {
    "tiny": {"vocab_size": 32, "embedding_size": 8, "hidden_size": 16, "num_directions": 2},
    # bentrevett/pytorch-sentiment-analysis, "Updated Sentiment Analysis": films of IMDb, vectors
    # of GloVe, the 25,000 most frequent words, one for all others and one for padding.
    "sentiment": {
        "vocab_size": 25_002,
        "embedding_size": 100,
        "hidden_size": 256,
        "num_directions": 2,
    },
    # The large network of arXiv:1409.2329, section 4.1, on the Penn Treebank.
    "large": {
        "vocab_size": 10_000,
        "embedding_size": 1500,
        "hidden_size": 1500,
        "num_directions": 1,
    },
}
"""What makes an ``LstmClassifier``, by name; tiny is for tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmSettings(NetworkSettings):
    """Classify sequences of random tokens with an LSTM, and train it.

    The phase train is a whole step: forward, cross entropy, backward, AdamW. There is none in
    fp16, in which AdamW's second moments underflow.

    Attributes:
        model: Geometry: sentiment is that of a classifier of film reviews, large that of a
            language model.
        weights: File with the network's state, as torch.save writes it; by default the weights
            are random, which takes the same time and energy.
        precision: Number format of weights and activations. cuDNN has an LSTM in bf16 since 9.13;
            with an older one PyTorch launches three kernels for each token, layer and direction.
        sequence_tokens: Tokens of each sequence.
    """

    model: Model = "sentiment"
    precision: FloatPrecision = "fp32"
    batch: int = 64
    sequence_tokens: int = 256


class Lstm(NetworkWorkload[LstmSettings]):
    """Classifies sequences and trains on them, step after step, and counts them."""

    settings_type: ClassVar = LstmSettings
    unit: ClassVar = "sequence"
    samples_per_run: ClassVar = 64
    training_phases: ClassVar = ("train",)

    def __init__(self, settings: LstmSettings) -> None:
        super().__init__(settings)
        self.phases = ("inference", "train")[: 1 if settings.precision == "fp16" else 2]

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.formats import load_state, storage_dtype
        from joulelab.workloads.lstm_network import LstmClassifier

        settings = self.settings
        dtype = storage_dtype(settings.precision)
        with device:
            network = LstmClassifier(**GEOMETRIES[settings.model], dtype=dtype)
            if settings.weights is not None:
                load_state(network, settings.weights)
        return network

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.lstm_network import programs

        with device:
            return programs(network, self.settings.batch, self.settings.sequence_tokens)
