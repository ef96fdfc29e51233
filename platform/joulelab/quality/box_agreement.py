"""How well the objects that a network finds match those that the reference finds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from joulelab.errors import MeasurementError
from joulelab.quality.base import Need, Score
from joulelab.quality.image_data import DetectionData
from joulelab.quality.image_protocols import Boxes
from joulelab.quality.mean_average_precision import MeanAveragePrecision
from joulelab.quality.packages import require_package


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAgreement(MeanAveragePrecision):
    """Mean average precision, 0 to 1, with the reference's boxes for those that are there.

    Attributes:
        overlap: Intersection over union from which a box counts as found.
    """

    name: ClassVar[str] = "box_agreement"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def check(self, data: DetectionData) -> None:
        require_package(self.name, "faster-coco-eval", "faster_coco_eval")

    @override
    def score(
        self, observed: Sequence[Boxes], data: DetectionData, reference: Sequence[Boxes]
    ) -> Score:
        if not any(len(each.labels) for each in reference):
            raise MeasurementError(
                "box_agreement takes the reference's boxes for those that are there, and it found "
                "none; lower confidence. Random weights are sure of nothing: 0.1 or less."
            )
        return self.of_images(observed, [replace(each, scores=None) for each in reference])
