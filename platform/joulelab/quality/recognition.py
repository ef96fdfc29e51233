"""Metrics of the classes that a network tells apart, and of the objects that it finds."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import (
    Boxes,
    Classifies,
    Detects,
    FloatArray,
    Metric,
    Need,
    Score,
    require_finite,
)
from joulelab.quality.image_data import DetectionData, LabelledData
from joulelab.quality.predictions import divergence, log_softmax
from joulelab.quality.uncertainty import grouped_score, ratio_of_sums

Overlap = Literal["0.5:0.95", "0.5", "0.75"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes(Metric):
    """A metric of the scores that each class gets for each input."""

    asks: ClassVar = Classifies

    observation = "class scores"

    @override
    def observe(self, subject: Classifies, data: LabelledData) -> FloatArray:
        return subject.class_scores(data.inputs)

    @override
    def pooled(self, samples: Sequence[Any]) -> float:
        return ratio_of_sums(samples)

    @abstractmethod
    def values(self, found: FloatArray, data: LabelledData, reference: Any) -> Sequence[float]:
        """Return the score of each input, of which the mean is taken."""

    @override
    def score(self, observed: FloatArray, data: LabelledData, reference: Any) -> Score:
        require_finite(self.name, observed, reference)
        return grouped_score(self.values(observed, data, reference), data.counted, data.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy(Classes):
    """Share of the inputs, 0 to 1, whose class is among the likeliest, by torchmetrics.

    Attributes:
        top: How many of the likeliest classes count.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"references"})

    top: int = 1

    @override
    def check(self, data: LabelledData) -> None:
        if getattr(data, "labels", None) is None:
            raise ConfigError(
                f"accuracy needs inputs whose classes are known, and {data.name} has none: give "
                "data, as a folder of images for each class. class_agreement and class_divergence "
                "need none."
            )

    @override
    def values(self, found: FloatArray, data: LabelledData, reference: Any) -> Sequence[float]:
        from joulelab.quality.image_judges import correct

        labels = np.asarray(data.labels)
        if found.shape[1] <= max(self.top, int(labels.max())):
            raise MeasurementError(
                f"accuracy needs more classes than top, {self.top}, and than the largest label, "
                f"{labels.max()}; the network tells {found.shape[1]} apart."
            )
        return correct(found, labels, self.top)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAgreement(Classes):
    """Share of the inputs, 0 to 1, whose likeliest class is that of the reference."""

    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def values(self, found: FloatArray, data: LabelledData, reference: Any) -> Sequence[float]:
        chosen = reference.argmax(axis=1)
        if len(chosen) > 1 and (chosen == chosen[0]).all():
            raise MeasurementError(
                f"The reference puts all {len(chosen)} inputs into one class, as random networks "
                "may, so that agreeing with it says nothing. class_divergence does; or give "
                "weights, or data of several classes."
            )
        return [float(same) for same in found.argmax(axis=1) == chosen]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDivergence(Classes):
    """Kullback-Leibler divergence of the classes' distribution from the reference's, in nats.

    It moves where class_agreement does not yet, since every likelihood counts and not the largest
    alone. The mean over the inputs; 0 if all distributions are those of the reference.
    """

    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def values(self, found: FloatArray, data: LabelledData, reference: Any) -> Sequence[float]:
        divergences: list[float] = divergence(log_softmax(found), log_softmax(reference)).tolist()
        return divergences


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanAveragePrecision(Metric):
    """Mean average precision, 0 to 1, as COCO defines it, by torchmetrics.

    Lin and others, "Microsoft COCO: common objects in context", 2014: precision averaged over
    recall, classes and, by default, ten thresholds of overlap.

    Attributes:
        overlap: Intersection over union from which a box counts as found.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    asks: ClassVar = Detects
    package: ClassVar = ("faster-coco-eval", "faster_coco_eval")
    num_draws: ClassVar = 199  # each draw is a whole evaluation

    overlap: Overlap = "0.5:0.95"

    observation = "objects"

    @override
    def check(self, data: DetectionData) -> None:
        Metric.check(self, data)
        known = any(each.has_objects for each in getattr(data, "objects", ()))
        if "references" in self.needs and not known:
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
    crowds = None if objects.crowds is None else tuple(objects.crowds.tolist())
    return corners, tuple(objects.labels.tolist()), scores, crowds


def boxes(held: tuple[Any, ...]) -> Boxes:
    """Return the objects of which :func:`numbers` made ``held``."""
    corners, labels, scores, crowds = held
    return Boxes(
        corners_px=np.array(corners, dtype=np.float64).reshape(-1, 4),
        labels=np.array(labels, dtype=np.int64),
        scores=None if scores is None else np.array(scores, dtype=np.float64),
        crowds=None if crowds is None else np.array(crowds, dtype=np.int64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAgreement(MeanAveragePrecision):
    """Mean average precision, 0 to 1, with the reference's boxes for those that are there.

    Attributes:
        overlap: Intersection over union from which a box counts as found.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

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
