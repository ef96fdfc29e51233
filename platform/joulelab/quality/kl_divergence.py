"""How much of the reference's predictions is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Need, Score
from joulelab.quality.distributions import NextTokens
from joulelab.quality.protocols import FloatArray, ReadsTokens
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import pooled_score


@dataclass(frozen=True, slots=True, kw_only=True)
class KlDivergence(NextTokens):
    """Kullback-Leibler divergence of the predicted next token from the reference's prediction.

    In nats per token; 0 if all predictions are those of the reference. Kullback and Leibler,
    "On information and sufficiency", 1951.
    """

    name: ClassVar[str] = "kl_divergence"
    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})
    asks: ClassVar = ReadsTokens

    @override
    def score(
        self, observed: Sequence[FloatArray], data: TextData, reference: Sequence[FloatArray]
    ) -> Score:
        divergences = [
            divergence(ours, theirs) for ours, theirs in zip(observed, reference, strict=True)
        ]
        counts = [len(each) for each in divergences]
        return pooled_score([float(each.sum()) for each in divergences], counts, "token")


def divergence(log_probabilities: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the divergence of each row of ``log_probabilities`` from that of ``reference``.

    Terms are summed as ``p ln(p/q) - p + q``, none of which is negative, so that neither is a
    small divergence, whatever the rounding.

    Args:
        log_probabilities: Shape (n, choices).
        reference: The same of the distribution that is taken for right.

    Returns:
        Shape (n,), in nats.
    """
    from scipy import special  # type: ignore[import-untyped]

    sums = np.empty(len(reference))
    for row, (ours, theirs) in enumerate(zip(log_probabilities, reference, strict=True)):
        p, q = (np.exp(each.astype(np.float64)) for each in (theirs, ours))
        sums[row] = special.kl_div(p, q).sum()
    return sums
