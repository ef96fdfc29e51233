"""Classes that a network tells apart, to be compared with labels or with a reference's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from joulelab.quality.base import Metric, Score
from joulelab.quality.image_data import LabelledData
from joulelab.quality.image_protocols import Classifies
from joulelab.quality.protocols import FloatArray
from joulelab.quality.uncertainty import grouped_score, ratio_of_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes(Metric):
    """A metric of the scores that each class gets for each input."""

    asks: ClassVar = Classifies

    @property
    @override
    def observation(self) -> str:
        return "class scores"

    @override
    def observe(self, subject: Classifies, data: LabelledData) -> FloatArray:
        return subject.class_scores(data.inputs)

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return ratio_of_sums(samples)

    def mean(self, values: Sequence[float], data: LabelledData) -> Score:
        """Return the mean of a value for each input."""
        return grouped_score(values, data.counted, data.groups)
