"""How much of the references' words a continuation has, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Need, Score
from joulelab.quality.continuations import Continuations
from joulelab.quality.packages import require_package
from joulelab.quality.protocols import GeneratesText
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import mean_score
from joulelab.workloads.knobs import require_choice

Kind = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]


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

    name: ClassVar[str] = "rouge"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    asks: ClassVar = GeneratesText

    kind: Kind = "rougeL"
    stemmer: bool = False

    def __post_init__(self) -> None:
        super(Rouge, self).__post_init__()  # slots make the class anew
        require_choice("kind", self.kind, get_args(Kind))

    @override
    def check(self, data: TextData) -> None:
        super(Rouge, self).check(data)  # slots make the class anew
        require_package(self.name, "rouge-score", "rouge_score")

    @override
    def score(self, observed: Sequence[str], data: TextData, reference: object) -> Score:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        scorer = RougeScorer([self.kind], use_stemmer=self.stemmer)
        values = [
            float(scorer.score_multi(right, text)[self.kind].fmeasure)
            for text, right in zip(observed, data.references, strict=True)
        ]
        return mean_score(values, "text")
