"""How well the objects that a network finds match those that are there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
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
    num_draws: ClassVar = 199  # each draw is a whole evaluation

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
                f"mean_average_precision needs images with known objects; {data.name} has none. "
                "box_agreement needs none."
            )

    @override
    def observe(self, subject: Detects, data: DetectionData) -> Sequence[Boxes]:
        return subject.detect(data.images, data.classes)

    @override
    def score(self, observed: Sequence[Boxes], data: DetectionData, reference: Any) -> Score:

        return self.of_images(observed, data.objects)

    def of_images(self, found: Sequence[Boxes], real: Sequence[Boxes]) -> Score:
        """Score what was found in each image against what is there."""
        samples = tuple(zip(map(numbers, found), map(numbers, real), strict=True))
        return Score(value=self.pooled(samples), n=len(samples), counted="image", samples=samples)

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        from joulelab.quality.image_judges import average_precision

        found, real = ([boxes(each[side]) for each in samples] for side in (0, 1))
        return average_precision(found, real, self.overlap)


def numbers(objects: Boxes) -> tuple[Any, ...]:
    """Return ``objects`` as numbers, which :func:`boxes` reads."""
    scores = None if objects.scores is None else tuple(objects.scores.tolist())
    corners = tuple(map(tuple, objects.corners_px.tolist()))
    return corners, tuple(objects.labels.tolist()), scores


def boxes(told: tuple[Any, ...]) -> Boxes:
    """Return the objects that :func:`numbers` told."""
    corners, labels, scores = told
    return Boxes(
        corners_px=np.array(corners, dtype=np.float64).reshape(-1, 4),
        labels=np.array(labels, dtype=np.int64),
        scores=None if scores is None else np.array(scores, dtype=np.float64),
    )
