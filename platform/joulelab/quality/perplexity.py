"""How surprised a network is by a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.quality.base import Metric, Score
from joulelab.quality.distributions import require_texts
from joulelab.quality.protocols import FloatArray, ReadsTokens
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import pooled_score, ratio_of_sums
from joulelab.workloads.knobs import require_count


class Surprise(NamedTuple):
    """Negative log-likelihood of the tokens that one window scores.

    Attributes:
        nats: Their sum.
        num_tokens: How many tokens those are.
    """

    nats: float
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Perplexity(Metric):
    """Exponential of the mean surprise at each token of the texts, by a sliding window.

    Every token but a text's first is scored once, by the first window that reaches it, as in
    "Perplexity of fixed-length models" of the documentation of transformers. A network that
    takes all tokens for equally likely has the size of its vocabulary as its perplexity.
    Tokens of different vocabularies differ: compare configurations of one network only.

    Attributes:
        window_tokens: Tokens of one window, or as many as the network reads if that is less.
        stride_tokens: How far the window moves; a shorter stride gives tokens more context.
    """

    name: ClassVar[str] = "perplexity"
    direction: ClassVar[Direction] = "lower"
    asks: ClassVar = ReadsTokens

    window_tokens: int = 2048
    stride_tokens: int = 512

    def __post_init__(self) -> None:
        require_count("window_tokens", self.window_tokens, least=2)
        require_count("stride_tokens", self.stride_tokens)
        if self.stride_tokens >= self.window_tokens:
            raise ConfigError(
                "stride_tokens must be less than window_tokens, so that every token has context, "
                f"got {self.stride_tokens} and {self.window_tokens}."
            )

    @property
    @override
    def observation(self) -> str:
        return f"surprise in {self.window_tokens} by {self.stride_tokens}"

    @override
    def check(self, data: TextData) -> None:
        require_texts(self.name, data)

    @override
    def observe(self, subject: ReadsTokens, data: TextData) -> list[Surprise]:
        return [
            each for reader, text in data.readings(subject) for each in self._read(reader, text)
        ]

    def _read(self, reader: ReadsTokens, text: str) -> Iterator[Surprise]:
        window_tokens = min(self.window_tokens, reader.max_tokens)
        stride_tokens = min(self.stride_tokens, window_tokens - 1)
        token_ids = reader.token_ids(text)
        for start, stop, num_scored in sliding_windows(
            len(token_ids), window_tokens, stride_tokens
        ):
            yield _surprise(reader, token_ids[start:stop], num_scored)

    @override
    def score(self, observed: Sequence[Surprise], data: TextData, reference: object) -> Score:
        counts = [each.num_tokens for each in observed]
        surprise = pooled_score([each.nats for each in observed], counts, "token")
        value, u = exp(surprise.value), surprise.u
        return replace(surprise, value=value, u=None if u is None else value * u)

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return exp(ratio_of_sums(samples))


def sliding_windows(
    num_tokens: int, window_tokens: int, stride_tokens: int
) -> Iterator[tuple[int, int, int]]:
    """Yield start, stop and number of newly reached tokens of each window over a text.

    Together the windows reach every token but the first, which nothing precedes, once.
    """
    reached = 1
    for start in range(0, num_tokens, stride_tokens):
        stop = min(start + window_tokens, num_tokens)
        if stop > reached:
            yield start, stop, stop - reached
            reached = stop
        if stop == num_tokens:
            return


def _surprise(subject: ReadsTokens, token_ids: Sequence[int], num_scored: int) -> Surprise:
    logits = subject.logits(token_ids)[-1 - num_scored : -1]
    targets = np.asarray(token_ids[-num_scored:])
    return Surprise(_cross_entropy(logits, targets), num_scored)


def _cross_entropy(logits: FloatArray, targets: FloatArray) -> float:
    from scipy import special  # type: ignore[import-untyped]

    return float(
        sum(
            special.logsumexp(row.astype(np.float64)) - float(row[target])
            for row, target in zip(logits, targets, strict=True)
        )
    )
