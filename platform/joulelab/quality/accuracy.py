"""How often the likeliest class is the right one."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import Need, Score
from joulelab.quality.classes import Classes
from joulelab.quality.image_data import LabelledData
from joulelab.quality.images import require_finite
from joulelab.quality.protocols import FloatArray
from joulelab.workloads.knobs import require_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy(Classes):
    """Share of the inputs, 0 to 1, whose class is among the likeliest, by torchmetrics.

    Attributes:
        top: How many of the likeliest classes count.
    """

    name: ClassVar[str] = "accuracy"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})

    top: int = 1

    def __post_init__(self) -> None:
        require_count("top", self.top)

    @override
    def check(self, data: LabelledData) -> None:
        if getattr(data, "labels", None) is None:
            raise ConfigError(
                f"accuracy needs inputs whose classes are known, and {data.name} has none: give "
                "data, as a folder of images for each class. class_agreement and class_divergence "
                "need none."
            )

    @override
    def score(self, observed: FloatArray, data: LabelledData, reference: object) -> Score:
        from joulelab.quality.image_judges import correct

        labels = np.asarray(data.labels)
        if observed.shape[1] <= max(self.top, int(labels.max())):
            raise MeasurementError(
                f"accuracy needs more classes than top, {self.top}, and than the largest label, "
                f"{labels.max()}; the network tells {observed.shape[1]} apart."
            )
        require_finite(self.name, observed)
        return self.mean(correct(observed, labels, self.top), data)
