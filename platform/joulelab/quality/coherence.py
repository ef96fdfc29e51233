"""How well each sentence of a continuation follows from the one before it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import MeasurementError
from joulelab.quality.base import Need, Score, missing_weights
from joulelab.quality.continuations import Continuations
from joulelab.quality.protocols import FloatArray, GeneratesText
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import mean_score

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

Embed = Callable[[Sequence[str]], FloatArray]
"""Sentences to vectors of length 1, shape (sentences, width)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coherence(Continuations):
    """Mean cosine similarity, -1 to 1, of embeddings of neighbouring sentences, prompt included.

    First-order coherence of Foltz, Kintsch and Landauer, "The measurement of textual coherence
    with latent semantic analysis", 1998, on embeddings of a sentence encoder. A text that
    repeats itself scores high: read it beside perplexity or KL divergence.

    Attributes:
        new_tokens: Most tokens of a continuation.
        weights: Folder or hub id of the sentence encoder, whose embedding is the mean of its last
            layer over the tokens.
    """

    name: ClassVar[str] = "coherence"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"weights"})
    asks: ClassVar = GeneratesText

    weights: str | None = None

    @override
    def check(self, data: TextData) -> None:
        super(Coherence, self).check(data)  # slots make the class anew
        if self.weights is None:
            raise missing_weights(
                self.name,
                "sentence-transformers/all-MiniLM-L6-v2",
                "perplexity, token_agreement and kl_divergence",
            )

    @override
    def score(self, observed: Sequence[str], data: TextData, reference: object) -> Score:
        from joulelab.quality.sentence_encoder import sentence_encoder

        texts = [f"{before} {text}" for before, text in zip(data.prompts, observed, strict=True)]
        embed = sentence_encoder(str(self.weights))
        values = [value for text in texts if (value := coherence(text, embed)) is not None]
        if not values:
            raise MeasurementError(
                "coherence needs a text of at least two sentences; allow more new_tokens."
            )
        score = mean_score(values, "text")
        return score if len(values) == len(texts) else replace(score, samples=())

    @property
    @override
    def why_no_samples(self) -> str:
        return "Some of its texts have fewer than two sentences, and are not scored."


def coherence(text: str, embed: Embed) -> float | None:
    """Return the mean similarity of neighbouring sentences; ``None`` for fewer than two."""
    sentences = [each for each in _SENTENCE_END.split(text) if each.strip()]
    if len(sentences) < 2:
        return None
    vectors = embed(sentences)
    return float(np.mean(np.sum(vectors[:-1] * vectors[1:], axis=1)))
