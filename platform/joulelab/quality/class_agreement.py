"""How often the likeliest class is the reference's."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Metric, Need, Score
from joulelab.quality.image_data import LabelledData
from joulelab.quality.image_protocols import Classifies
from joulelab.quality.images import mean_score, require_finite
from joulelab.quality.protocols import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAgreement(Metric):
    """Share of the inputs, 0 to 1, whose likeliest class is that of the reference."""

    name: ClassVar[str] = "class_agreement"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})
    asks: ClassVar = Classifies

    @property
    @override
    def observation(self) -> str:
        return "class scores"

    @override
    def observe(self, subject: Classifies, data: LabelledData) -> FloatArray:
        return subject.class_scores(data.inputs)

    @override
    def score(self, observed: FloatArray, data: LabelledData, reference: FloatArray) -> Score:
        require_finite(self.name, observed)
        same = observed.argmax(axis=1) == reference.argmax(axis=1)
        return mean_score(same.astype(float).tolist(), data.counted)
