"""Predictions of every next token, by two networks compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.quality.base import Metric
from joulelab.quality.protocols import FloatArray, ReadsTokens
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import ratio_of_sums
from joulelab.workloads.knobs import require_count


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTokens(Metric):
    """A metric of predictions along given texts, one set of log-probabilities per window.

    Every token is predicted from the same tokens before it, whatever the network would have
    written itself, so that one early difference does not count again and again.

    Attributes:
        max_tokens: Most tokens of the data set that are read. Their predictions are held in
            memory, vocabulary times 4 bytes each.
        window_tokens: Tokens of one window; windows do not overlap.
    """

    max_tokens: int = 2048
    window_tokens: int = 256

    def __post_init__(self) -> None:
        require_count("max_tokens", self.max_tokens)
        require_count("window_tokens", self.window_tokens, least=2)

    @property
    @override
    def observation(self) -> str:
        return f"next tokens of {self.max_tokens} in {self.window_tokens}"

    @override
    def check(self, data: TextData) -> None:
        require_texts(self.name, data)

    @override
    def observe(self, subject: ReadsTokens, data: TextData) -> list[FloatArray]:
        found: list[FloatArray] = []
        left = self.max_tokens
        for reader, text in data.readings(subject):
            window_tokens = min(self.window_tokens, reader.max_tokens)
            windows = split_windows([reader.token_ids(text)], window_tokens, left)
            left -= sum(map(len, windows))
            found += [log_softmax(reader.logits(window)) for window in windows]
        return found

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return ratio_of_sums(samples)


def require_texts(metric: str, data: TextData) -> None:
    """Refuse ``data`` without running texts.

    Raises:
        ConfigError: Says what there must be.
    """
    if not data.texts:
        raise ConfigError(
            f"{metric} needs running texts: .txt files, or .jsonl lines with a text; {data.name} "
            "has none."
        )


def split_windows(
    texts: Sequence[Sequence[int]], window_tokens: int, max_tokens: int
) -> list[Sequence[int]]:
    """Cut ``texts`` into windows, and stop after ``max_tokens`` tokens in all."""
    windows: list[Sequence[int]] = []
    left = max_tokens
    for text in texts:
        for start in range(0, len(text), window_tokens):
            window = text[start : start + min(window_tokens, left)]
            left -= len(window)
            if window:
                windows.append(window)
    return windows


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log-probabilities, shape and precision as ``logits``, computed in double."""
    from scipy import special  # type: ignore[import-untyped]

    normalised = np.empty_like(logits)
    for row, each in enumerate(logits):
        normalised[row] = special.log_softmax(each.astype(np.float64))
    return normalised
