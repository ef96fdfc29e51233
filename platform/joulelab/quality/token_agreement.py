"""How often the likeliest next token is the reference's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Need, Score
from joulelab.quality.distributions import NextTokens
from joulelab.quality.protocols import FloatArray, ReadsTokens
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import pooled_score


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAgreement(NextTokens):
    """Share of the tokens, 0 to 1, whose likeliest successor is that of the reference."""

    name: ClassVar[str] = "token_agreement"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})
    asks: ClassVar = ReadsTokens

    @override
    def score(
        self, observed: Sequence[FloatArray], data: TextData, reference: Sequence[FloatArray]
    ) -> Score:
        agreements = [
            ours.argmax(axis=1) == theirs.argmax(axis=1)
            for ours, theirs in zip(observed, reference, strict=True)
        ]
        counts = [len(each) for each in agreements]
        return pooled_score([float(each.sum()) for each in agreements], counts, "token")
