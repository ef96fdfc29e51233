"""Classification of sequences by a long short-term memory, run and trained."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.lstm_geometry import GEOMETRIES, LstmGeometry
from joulelab.workloads.network import NetworkWorkload, Programs

Model = Literal["tiny", "sentiment", "large"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]

_SEQUENCES_PER_RUN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmSettings:
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
        batch: Sequences computed side by side.
        sequence_tokens: Tokens of each sequence.
    """

    model: Model = "sentiment"
    weights: str | None = None
    precision: Precision = "fp32"
    batch: int = 64
    sequence_tokens: int = 256

    def __post_init__(self) -> None:
        require_choice("model", self.model, get_args(Model))
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_count("sequence_tokens", self.sequence_tokens)

    @property
    def geometry(self) -> LstmGeometry:
        """The shape of the network."""
        return GEOMETRIES[self.model]


class Lstm(NetworkWorkload[LstmSettings]):
    """Classifies sequences and trains on them, and counts them.

    Every training step goes on from the weights that the one before left.
    """

    settings_type: ClassVar = LstmSettings
    unit: ClassVar = "sequence"
    training_phases: ClassVar = ("train",)

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return ("inference",) if self.settings.precision == "fp16" else ("inference", "train")

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.formats import storage_dtype
        from joulelab.workloads.lstm_network import LstmClassifier
        from joulelab.workloads.state_file import load_state

        settings = self.settings
        with device:
            network = LstmClassifier(settings.geometry, storage_dtype(settings.precision))
            if settings.weights is not None:
                load_state(network, settings.weights)
        return network

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.lstm_network import programs

        with device:
            return programs(network, self.settings.batch, self.settings.sequence_tokens)

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def executions(self, phase: str) -> int:
        return max(_SEQUENCES_PER_RUN // self.settings.batch, 1)
