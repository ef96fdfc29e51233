"""How much of the reference's belief in its classes is lost."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Need, Score
from joulelab.quality.classes import Classes
from joulelab.quality.distributions import log_softmax
from joulelab.quality.image_data import LabelledData
from joulelab.quality.images import require_finite
from joulelab.quality.kl_divergence import divergence
from joulelab.quality.protocols import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDivergence(Classes):
    """Kullback-Leibler divergence of the classes' distribution from the reference's, in nats.

    It moves where class_agreement does not yet, since every likelihood counts and not the largest
    alone. The mean over the inputs; 0 if all distributions are those of the reference.
    """

    name: ClassVar[str] = "class_divergence"
    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def score(self, observed: FloatArray, data: LabelledData, reference: FloatArray) -> Score:
        require_finite(self.name, observed)
        found = divergence(log_softmax(observed), log_softmax(reference))
        return self.mean(found.tolist(), data)
