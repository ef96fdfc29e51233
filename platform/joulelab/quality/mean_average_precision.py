"""How well the objects that a network finds match those that are there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.quality.base import Metric, Need, Score
from joulelab.quality.image_data import DetectionData
from joulelab.quality.image_protocols import Boxes, Detects
from joulelab.quality.packages import require_package
from joulelab.workloads.knobs import require_choice

Overlap = Literal["0.5:0.95", "0.5", "0.75"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanAveragePrecision(Metric):
    """Mean average precision, 0 to 1, as COCO defines it, by torchmetrics.

    Lin and others, "Microsoft COCO: common objects in context", 2014: precision averaged over
    recall, classes and, by default, ten thresholds of overlap.

    Attributes:
        overlap: Intersection over union from which a box counts as found.
    """

    name: ClassVar[str] = "mean_average_precision"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    asks: ClassVar = Detects

    overlap: Overlap = "0.5:0.95"

    def __post_init__(self) -> None:
        require_choice("overlap", self.overlap, get_args(Overlap))

    @property
    @override
    def observation(self) -> str:
        return "objects"

    @override
    def check(self, data: DetectionData) -> None:
        require_package(self.name, "faster-coco-eval", "faster_coco_eval")
        if not any(len(each.labels) for each in getattr(data, "objects", ())):
            raise ConfigError(
                f"mean_average_precision needs images with known objects; {data.name} has none."
            )

    @override
    def observe(self, subject: Detects, data: DetectionData) -> Sequence[Boxes]:
        return subject.detect(data.images)

    @override
    def score(self, observed: Sequence[Boxes], data: DetectionData, reference: object) -> Score:
        from joulelab.quality.image_judges import average_precision

        value = average_precision(observed, data.objects, self.overlap)
        return Score(value=value, n=len(observed), counted="image")
