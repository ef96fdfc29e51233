"""Metrics of the texts that a network writes: BLEU, ROUGE, and coherence."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import FloatArray, GeneratesText, Metric, Need, Score
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import mean_score

_SEED = 0
_ORDER = 4  # longest n-grams that BLEU counts
Counts = npt.NDArray[np.int64]
Kind = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
_BATCH = 64  # sentences that are embedded at once
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
Embed = Callable[[Sequence[str]], FloatArray]
"""Sentences to vectors of length 1, shape (sentences, width)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuations(Metric):
    """A metric of the continuations of the data set's prompts.

    Attributes:
        new_tokens: Most tokens of a continuation.
    """

    asks: ClassVar = GeneratesText
    instead: ClassVar = "perplexity, token_agreement and kl_divergence"

    new_tokens: int = 64

    @property
    @override
    def observation(self) -> str:
        return f"continuations of {self.new_tokens}"

    @override
    def check(self, data: TextData) -> None:
        if not data.prompts:
            raise ConfigError(
                f"{self.name} needs prompts: .jsonl lines with a prompt; {data.name} has none. "
                f"{self.instead} need none."
            )
        if "references" in self.needs and not (data.references and all(data.references)):
            raise ConfigError(
                f"{self.name} needs a reference for every prompt: .jsonl lines with a prompt and "
                f"a reference, which {data.name} lacks. {self.instead} need none."
            )
        Metric.check(self, data)

    @override
    def observe(self, subject: GeneratesText, data: TextData) -> Sequence[str]:
        return subject.generate(data.prompts, new_tokens=self.new_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bleu(Continuations):
    """BLEU of all continuations together, 0 to 100, by sacrebleu with its defaults.

    Papineni and others, "BLEU: a method for automatic evaluation of machine translation", 2002;
    Post, "A call for clarity in reporting BLEU scores", 2018. The uncertainty is the scatter
    over texts drawn anew with replacement.

    Attributes:
        new_tokens: Most tokens of a continuation.
        num_resamples: How often the texts are drawn anew.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    package: ClassVar = ("sacrebleu", "sacrebleu")
    least: ClassVar = {"num_resamples": 2}

    num_resamples: int = 1000

    @override
    def score(self, observed: Sequence[str], data: TextData, reference: object) -> Score:
        counts = np.array(
            [_counts(text, right) for text, right in zip(observed, data.references, strict=True)]
        )
        draw = np.random.default_rng(_SEED).integers
        drawn = draw(len(counts), size=(self.num_resamples, len(counts)))
        scattered = [_bleu(counts[each].sum(axis=0)) for each in drawn]
        return Score(
            value=_bleu(counts.sum(axis=0)),
            u=float(np.std(scattered, ddof=1)) if len(counts) > 1 else None,
            n=len(counts),
            counted="text",
            samples=tuple(map(tuple, counts.tolist())),
        )

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return _bleu(np.sum(samples, axis=0))


def _counts(written: str, right: Sequence[str]) -> list[int]:
    """Return the n-grams that match and that there are, and the lengths, of one text."""
    from sacrebleu.metrics.bleu import BLEU

    of_text = BLEU(effective_order=True).sentence_score(written, right)
    return [*of_text.counts, *of_text.totals, of_text.sys_len, of_text.ref_len]


def _bleu(counts: Counts) -> float:
    from sacrebleu.metrics.bleu import BLEU

    matches, totals = counts[:_ORDER].tolist(), counts[_ORDER : 2 * _ORDER].tolist()
    written_len, right_len = map(int, counts[2 * _ORDER :])
    of_all = BLEU.compute_bleu(matches, totals, written_len, right_len, smooth_method="exp")
    return float(of_all.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rouge(Continuations):
    """Mean F-measure of ROUGE, 0 to 1, by rouge-score; of several references the best counts.

    Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

    Attributes:
        new_tokens: Most tokens of a continuation.
        kind: Words (rouge1), pairs of words (rouge2), or longest common subsequence, of the text
            (rougeL) or line by line (rougeLsum).
        stemmer: Whether words count as equal that have the same stem; for English.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    package: ClassVar = ("rouge-score", "rouge_score")

    kind: Kind = "rougeL"
    stemmer: bool = False

    @override
    def score(self, observed: Sequence[str], data: TextData, reference: object) -> Score:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        scorer = RougeScorer([self.kind], use_stemmer=self.stemmer)
        values = [
            float(scorer.score_multi(right, text)[self.kind].fmeasure)
            for text, right in zip(observed, data.references, strict=True)
        ]
        return mean_score(values, "text")


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

    needs: ClassVar[frozenset[Need]] = frozenset({"weights"})
    judge: ClassVar = "a folder or hub id such as sentence-transformers/all-MiniLM-L6-v2"

    weights: str | None = None

    @override
    def score(self, observed: Sequence[str], data: TextData, reference: object) -> Score:
        texts = [f"{before} {text}" for before, text in zip(data.prompts, observed, strict=True)]
        embed = sentence_encoder(str(self.weights))
        values = [value for text in texts if (value := coherence(text, embed)) is not None]
        if not values:
            raise MeasurementError(
                "coherence needs a text of at least two sentences; allow more new_tokens."
            )
        score = mean_score(values, "text")
        return score if len(values) == len(texts) else replace(score, samples=())

    why_no_samples = "Some of its texts have fewer than two sentences, and are not scored."


def coherence(text: str, embed: Embed) -> float | None:
    """Return the mean similarity of neighbouring sentences; ``None`` for fewer than two."""
    sentences = [each for each in _SENTENCE_END.split(text) if each.strip()]
    if len(sentences) < 2:
        return None
    vectors = embed(sentences)
    return float(np.mean(np.sum(vectors[:-1] * vectors[1:], axis=1)))


def sentence_encoder(weights: str) -> Embed:
    """Load the encoder in the folder or of the hub id ``weights``.

    It embeds a sentence as the mean of the last layer over its tokens (Reimers and Gurevych,
    "Sentence-BERT", 2019), of length 1. Raises ConfigError if it cannot be read.
    """
    import torch

    from joulelab.workloads import accelerator, hub

    from transformers import AutoModel, AutoTokenizer  # isort: skip  # after hub

    device = accelerator.select_device()
    network = hub.pretrained_model(AutoModel, weights, torch.float32, device)
    with hub.reading(weights):
        tokenizer = AutoTokenizer.from_pretrained(weights)

    def embed(sentences: Sequence[str]) -> FloatArray:
        batches = (sentences[start : start + _BATCH] for start in range(0, len(sentences), _BATCH))
        vectors = [_embedded(list(batch)) for batch in batches]
        found: FloatArray = torch.cat(vectors).numpy()
        return found

    def _embedded(sentences: list[str]) -> torch.Tensor:
        encoded = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt")
        encoded = encoded.to(device)
        with accelerator.computing("fp32"):
            states = network(**encoded).last_hidden_state
            mask = encoded["attention_mask"].unsqueeze(-1)
            means = (states * mask).sum(dim=1) / mask.sum(dim=1)
            return torch.nn.functional.normalize(means, dim=1).cpu()

    return embed
