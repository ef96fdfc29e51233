"""Speech recognition by Whisper: encoder and decoder, measured apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.core.cost import Request, WorkloadCost
from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

WINDOW_S = 30.0
"""Audio that the encoder takes at once, padded if there is less (arXiv:2212.04356, section 2.2)."""

START_TOKENS = 4
"""Start, language, task and no-timestamps: what the decoder reads first (ibid., figure 1)."""

MOST_TOKENS = 448
"""Positions of the decoder: ``max_target_positions`` of every published configuration."""
_SHAPE = ("d_model", "encoder_layers", "decoder_layers", "num_mel_bins", "vocab_size")
Model = Literal["toy", "tiny", "base", "small", "medium", "large-v3"]


def _whisper(width: int, layers: int, heads: int, **others: Any) -> Mapping[str, Any]:
    sides = ("encoder", "decoder")
    return {
        "d_model": width,
        **{f"{side}_layers": layers for side in sides},
        **{f"{side}_attention_heads": heads for side in sides},
        **{f"{side}_ffn_dim": 4 * width for side in sides},
        "max_source_positions": 1500,
        "max_target_positions": MOST_TOKENS,
        "vocab_size": 51865,
        **others,
    }


GEOMETRIES: Mapping[str, Mapping[str, Any]] = {
    # For tests: one layer, and tokens of no language.
    "toy": _whisper(
        *(64, 1, 2),
        vocab_size=128,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 126),
        decoder_start_token_id=127,
    ),
    # openai/whisper-* (arXiv:2212.04356, table 1).
    "tiny": _whisper(384, 4, 6),
    "base": _whisper(512, 6, 8),
    "small": _whisper(768, 12, 12),
    "medium": _whisper(1024, 24, 16),
    "large-v3": _whisper(1280, 32, 20, num_mel_bins=128, vocab_size=51866),
}
"""What to give to ``WhisperConfig`` of transformers, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperSettings(NetworkSettings):
    """Recognise noise that sounds like speech, in windows of 30 s one after the other.

    Attributes:
        model: Geometry of the network; toy is for tests.
        audio_seconds: Length of each. A window that is not full costs as much as a full one.
        beams: Texts kept at each step for every recording; 1 is greedy.
        tokens_per_second: Tokens generated for a second of audio. The default is the speech of
            150 words a minute at 4/3 tokens a word, an estimate.
    """

    model: Model = "base"
    precision: NetworkPrecision = "fp16"
    audio_seconds: float = WINDOW_S
    beams: int = 1
    tokens_per_second: float = 10 / 3

    def __post_init__(self) -> None:
        NetworkSettings.__post_init__(self)
        longest = MOST_TOKENS - START_TOKENS
        if self.new_tokens > longest:
            raise ConfigError(
                f"tokens_per_second must be at most {longest / self.window_s:.4g}, {longest} "
                f"tokens in a window, got {self.tokens_per_second}."
            )

    @property
    def num_windows(self) -> int:
        """Windows of each recording."""
        return ceil(self.audio_seconds / WINDOW_S)

    @property
    def window_s(self) -> float:
        """Audio in each window; the rest is padding."""
        return self.audio_seconds / self.num_windows

    @property
    def new_tokens(self) -> int:
        """Tokens generated for each window, at least one."""
        return max(round(self.tokens_per_second * self.window_s), 1)


class Whisper(NetworkWorkload[WhisperSettings]):
    """Runs a Whisper network of transformers, and counts seconds of audio.

    The encoder reads the features of each window; the decoder then generates its text, token by
    token, on a key-value cache. Features are computed beforehand and are in neither phase. Every
    window is the same one.
    """

    settings_type: ClassVar = WhisperSettings
    unit: ClassVar = "audio second"
    phases = ("encoder", "decoder")
    called: ClassVar = "whisper-{model}"
    input_knobs: ClassVar = frozenset({"batch", "audio_seconds", "beams", "tokens_per_second"})

    @override
    def network(self, device: Any) -> Any:
        import transformers  # only names until hub made it importable

        from joulelab.workloads import hub

        config = transformers.WhisperConfig(**GEOMETRIES[self.settings.model])
        auto = transformers.WhisperForConditionalGeneration
        return hub.network_of(auto, config, self.settings, device, shape=_SHAPE)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        recognition = self.recognition(network)
        return {"encoder": recognition.encode, "decoder": recognition.decode}

    def recognition(self, network: Any) -> Any:
        """Return what ``network`` does to one window of every recording."""
        from joulelab.workloads.whisper_network import Recognition

        settings = self.settings
        return Recognition(
            network,
            batch=settings.batch,
            window_s=settings.window_s,
            beams=settings.beams,
            start_tokens=START_TOKENS,
            new_tokens=settings.new_tokens,
        )

    @override
    def work(self, phase: str) -> float:
        return self.settings.batch * self.settings.window_s

    @override
    def executions(self, phase: str) -> int:
        return self.settings.num_windows

    @property
    @override
    def request(self) -> Request:
        """A batch of recordings, all their windows."""
        length_s = self.settings.batch * self.settings.audio_seconds
        return Request(units=dict.fromkeys(self.phases, length_s), size=length_s)

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.workloads.whisper_network import traced_cost

        return traced_cost(self, self.recognition)
