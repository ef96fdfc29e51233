"""How many of the references' phrases a continuation has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Need, Score
from joulelab.quality.continuations import Continuations
from joulelab.quality.packages import require_package
from joulelab.quality.protocols import GeneratesText
from joulelab.quality.text_data import TextData
from joulelab.workloads.knobs import require_count

_SEED = 0
_ORDER = 4  # longest n-grams that BLEU counts

Counts = npt.NDArray[np.int64]


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

    name: ClassVar[str] = "bleu"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    asks: ClassVar = GeneratesText

    num_resamples: int = 1000

    def __post_init__(self) -> None:
        super(Bleu, self).__post_init__()  # slots make a class anew
        require_count("num_resamples", self.num_resamples, least=2)

    @override
    def check(self, data: TextData) -> None:
        super(Bleu, self).check(data)  # slots make the class anew
        require_package(self.name, "sacrebleu", "sacrebleu")

    @override
    def score(self, observed: Sequence[str], data: TextData, reference: object) -> Score:
        counts = np.array(
            [_counts(text, right) for text, right in zip(observed, data.references, strict=True)]
        )
        return Score(
            value=_bleu(counts.sum(axis=0)),
            u=self._scatter(counts) if len(counts) > 1 else None,
            n=len(counts),
            counted="text",
            samples=tuple(map(tuple, counts.tolist())),
        )

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return _bleu(np.sum(samples, axis=0))

    def _scatter(self, counts: Counts) -> float:
        generator = np.random.default_rng(_SEED)
        drawn = generator.integers(len(counts), size=(self.num_resamples, len(counts)))
        return float(np.std([_bleu(counts[each].sum(axis=0)) for each in drawn], ddof=1))


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
