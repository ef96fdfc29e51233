"""The objects that a detector finds, to be scored."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.detection_data import read_detection_images
from joulelab.quality.image_data import DetectionData
from joulelab.quality.image_files import in_batches
from joulelab.quality.image_protocols import Boxes, Detects
from joulelab.quality.protocols import FloatArray
from joulelab.workloads.class_subjects import SETTLING_BATCH
from joulelab.workloads.detection import Detection, DetectionSettings
from joulelab.workloads.network_outputs import NetworkSubject

_BATCH = 8


class DetectionSubject(NetworkSubject[Detection]):
    """A detector of transformers. What it is less sure of than its confidence is not found."""

    metrics: ClassVar = ("box_agreement",)
    answers: ClassVar = (Detects,)

    @staticmethod
    @override
    def read_data(source: str | None) -> DetectionData:
        return read_detection_images(source)

    @override
    def build(self, workload: Any, device: Any) -> Any:
        if workload.settings.runs_by_ultralytics:
            raise ConfigError(
                "Objects are scored for the networks of transformers (rtdetr-r18, rtdetr-r50, "
                f"yolos-tiny, yolos-small), got {workload.settings.model}."
            )
        settled = replace(workload.settings, batch=SETTLING_BATCH)
        return type(workload)(settled).load(device)[0]

    @override
    def outputs(self, network: Any) -> "Found":
        return Found(network, self.workload.settings)


class Found:
    """A loaded detector.

    Args:
        network: The network.
        settings: Size of its images, confidence, and precision.
    """

    def __init__(self, network: Any, settings: DetectionSettings) -> None:
        from joulelab.workloads.image_preparation import detection_processor

        self._network = network
        self._settings = settings
        self._processor = detection_processor(
            network.config.model_type, settings.weights, settings.image_size
        )

    def detect(self, images: Sequence[FloatArray], classes: Mapping[str, int]) -> list[Boxes]:
        """Return the objects in each image, in its own pixels."""
        numbers = self._numbers(classes)
        return [
            replace(boxes, labels=np.array([numbers[int(label)] for label in boxes.labels], int))
            for batch in in_batches(images, _BATCH)
            for boxes in self._of(batch)
        ]

    def _of(self, batch: list[FloatArray]) -> list[Boxes]:
        from joulelab.workloads import accelerator, formats
        from joulelab.workloads.image_preparation import as_pixels

        pixels = as_pixels(self._processor, batch).to(
            self._network.device, formats.storage_dtype(self._settings.precision)
        )
        with accelerator.computing(self._settings.precision):
            found = self._processor.post_process_object_detection(
                self._network(pixel_values=pixels),
                threshold=self._settings.confidence,
                target_sizes=[image.shape[-2:] for image in batch],
            )
        return [_boxes(each) for each in found]

    def _numbers(self, classes: Mapping[str, int]) -> dict[int, int]:
        """Return the data set's number of each class of the network, or one beyond them all."""
        named = {int(label): str(name) for label, name in self._network.config.id2label.items()}
        if classes and not classes.keys() & set(named.values()):
            raise MeasurementError(
                f"The network knows none of the classes of the data set ({', '.join(classes)}); "
                "give weights that do. box_agreement needs no classes."
            )
        beyond = 1 + max(classes.values(), default=-1)
        return {label: classes.get(name, beyond + label) for label, name in named.items()}


def _boxes(found: Mapping[str, Any]) -> Boxes:
    corners, labels, scores = (
        found[name].float().cpu().numpy() for name in ("boxes", "labels", "scores")
    )
    return Boxes(corners_px=corners.reshape(-1, 4), labels=labels.astype(np.int64), scores=scores)
