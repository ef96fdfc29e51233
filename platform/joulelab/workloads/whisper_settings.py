"""The knobs of Whisper speech recognition."""

from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice, require_count, require_positive
from joulelab.workloads.whisper_geometry import MOST_TOKENS, START_TOKENS, WINDOW_S

Model = Literal["toy", "tiny", "base", "small", "medium", "large-v3"]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperSettings:
    """Recognise noise that sounds like speech, in windows of 30 s one after the other.

    Attributes:
        model: Geometry of the network; toy is for tests.
        weights: Folder or hub id of a checkpoint of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and products. tf32 is stored as fp32; under int8, int4
            and fp8 linear layers alone are stored so.
        batch: Recordings recognised side by side.
        audio_seconds: Length of each. A window that is not full costs as much as a full one.
        beams: Texts kept at each step for every recording; 1 is greedy.
        tokens_per_second: Tokens generated for a second of audio. The default is the speech of
            150 words a minute at 4/3 tokens a word, an estimate.
    """

    model: Model = "base"
    weights: str | None = None
    precision: Precision = "fp16"
    batch: int = 1
    audio_seconds: float = WINDOW_S
    beams: int = 1
    tokens_per_second: float = 10 / 3

    def __post_init__(self) -> None:
        require_choice("model", self.model, get_args(Model))
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_positive("audio_seconds", self.audio_seconds)
        require_count("beams", self.beams)
        require_positive("tokens_per_second", self.tokens_per_second)
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
