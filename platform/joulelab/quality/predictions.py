"""Metrics of the tokens that a network expects: perplexity, and agreement with a reference."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.quality.base import FloatArray, Metric, Need, ReadsTokens, Score, require_finite
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import pooled_score, ratio_of_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTokens(Metric):
    """A comparison of predictions along given texts, one set of log-probabilities per window.

    Every token is predicted from the same tokens before it, whatever the network would have
    written itself, so that one early difference does not count again and again.

    Attributes:
        max_tokens: Most tokens of the data set that are read. Their predictions are held in
            memory, vocabulary times 4 bytes each.
        window_tokens: Tokens of one window; windows do not overlap.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})
    asks: ClassVar = ReadsTokens
    least: ClassVar = {"window_tokens": 2}

    max_tokens: int = 2048
    window_tokens: int = 256

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
            windows = split_windows(reader.token_ids(text), window_tokens, left)
            left -= sum(map(len, windows))
            found += [log_softmax(reader.logits(window)) for window in windows]
        return found

    @abstractmethod
    def compared(self, ours: FloatArray, theirs: FloatArray) -> FloatArray:
        """Compare log-probabilities, shape (n, vocabulary), by a value for each token."""

    @override
    def score(
        self, observed: Sequence[FloatArray], data: TextData, reference: Sequence[FloatArray]
    ) -> Score:
        # The likeliest is a number if all are; others may be the logarithm of no probability at all
        require_finite(self.name, *map(_likeliest, (observed, reference)))
        values = list(map(self.compared, observed, reference))
        counts = [len(each) for each in values]
        return pooled_score([float(each.sum()) for each in values], counts, "token")

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return ratio_of_sums(samples)


def _likeliest(log_probabilities: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate([each.max(axis=1) for each in log_probabilities])


def require_texts(metric: str, data: TextData) -> None:
    """Refuse ``data`` without running texts, by a ConfigError that says what there must be."""
    if not data.texts:
        raise ConfigError(
            f"{metric} needs running texts: .txt files, or .jsonl lines with a text; {data.name} "
            "has none."
        )


def split_windows(text: Sequence[int], window_tokens: int, max_tokens: int) -> list[Sequence[int]]:
    """Cut the first ``max_tokens`` tokens of a text into windows."""
    read = text[:max_tokens]
    return [read[start : start + window_tokens] for start in range(0, len(read), window_tokens)]


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log-probabilities, shape and precision as ``logits``, computed in double."""
    normalised = np.empty_like(logits)
    for row, each in enumerate(logits):
        normalised[row] = each.astype(np.float64) - _log_sum_exp(each)
    return normalised


def _log_sum_exp(logits: FloatArray) -> float:
    """Return the logarithm of the sum of exponentials, computed in double.

    One row at a time, since all rows of a window in double are gigabytes with a large vocabulary.
    """
    doubled = logits.astype(np.float64)
    peak = doubled.max()
    return float(peak + np.log(np.exp(doubled - peak).sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class KlDivergence(NextTokens):
    """Kullback-Leibler divergence of the predicted next token from the reference's prediction.

    In nats per token; 0 if all predictions are those of the reference. Kullback and Leibler,
    "On information and sufficiency", 1951.
    """

    direction: ClassVar[Direction] = "lower"

    @override
    def compared(self, ours: FloatArray, theirs: FloatArray) -> FloatArray:
        return divergence(ours, theirs)


def divergence(log_probabilities: FloatArray, reference: FloatArray) -> FloatArray:
    """Return how far each row of log-probabilities (n, choices) is from the reference, in nats.

    Terms are summed as ``p ln(p/q) - p + q``, none of which is negative, so that neither is a small
    divergence, whatever the rounding.
    """
    from scipy import special  # type: ignore[import-untyped]

    sums = np.empty(len(reference))
    for row, (ours, theirs) in enumerate(zip(log_probabilities, reference, strict=True)):
        p, q = (np.exp(each.astype(np.float64)) for each in (theirs, ours))
        sums[row] = special.kl_div(p, q).sum()
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAgreement(NextTokens):
    """Share of the tokens, 0 to 1, whose likeliest successor is that of the reference."""

    @override
    def compared(self, ours: FloatArray, theirs: FloatArray) -> FloatArray:
        return np.asarray(ours.argmax(axis=1) == theirs.argmax(axis=1), dtype=np.float64)


class Surprise(NamedTuple):
    """Negative log-likelihood in nats of the tokens that one window scores, and their number."""

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

    direction: ClassVar[Direction] = "lower"
    asks: ClassVar = ReadsTokens
    least: ClassVar = {"window_tokens": 2}

    window_tokens: int = 2048
    stride_tokens: int = 512

    def __post_init__(self) -> None:
        Metric.__post_init__(self)
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
            logits = reader.logits(token_ids[start:stop])[-1 - num_scored : -1]
            targets = token_ids[stop - num_scored : stop]
            nats = (
                _log_sum_exp(row) - float(row[target])
                for row, target in zip(logits, targets, strict=True)
            )
            yield Surprise(sum(nats), num_scored)

    @override
    def score(self, observed: Sequence[Surprise], data: TextData, reference: object) -> Score:
        counts = [each.num_tokens for each in observed]
        surprise = pooled_score([each.nats for each in observed], counts, "token")
        value, u = _perplexity(surprise.value), surprise.u
        return replace(surprise, value=value, u=None if u is None else value * u)

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return _perplexity(ratio_of_sums(samples))


def _perplexity(surprise: float) -> float:
    """Return the perplexity of so many nats per token; infinite beyond what numbers can hold."""
    with np.errstate(over="ignore"):
        return float(np.exp(surprise))


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
