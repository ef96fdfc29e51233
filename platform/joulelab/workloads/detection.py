"""Detection of objects: a network and the choice among its boxes."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.knobs import (
    require_choice,
    require_count,
    require_fraction,
    require_multiple,
)
from joulelab.workloads.network import NetworkWorkload, Programs
from joulelab.workloads.vision_geometry import DETECTORS, STRIDES

Model = Literal[
    "tiny", "rtdetr-r18", "rtdetr-r50", "yolos-tiny", "yolos-small", "yolov8n", "yolov8s", "yolov8m"
]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]

_ULTRALYTICS_STRIDE = 32
_RT_DETR_STRIDES = (8, 16, 32)
_RT_DETR_QUERIES = 300  # transformers' default
_ULTRALYTICS_LICENCE = "AGPL-3.0 (ultralytics)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionSettings:
    """Detect objects in images: the network, then its boxes above a confidence.

    RT-DETR and YOLOS run by transformers. YOLOv8 runs by ultralytics, which is licensed under the
    AGPL-3.0, is not part of joulelab, and is installed only by pip install 'joulelab[detection]'.

    Attributes:
        model: The network; yolov8n, yolov8s and yolov8m need ultralytics (AGPL-3.0).
        weights: Folder or hub id of a checkpoint of that geometry, for YOLOv8 a .pt file that you
            trust, for it can run code; by default the weights are random, which needs no download.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers, of which YOLOv8 has none.
        batch: Images computed side by side.
        image_size: Side of an image in pixels, a multiple of 32 (of 16 for YOLOS).
        confidence: Least confidence of a box that is kept, from 0 to 1.
    """

    model: Model = "rtdetr-r50"
    weights: str | None = None
    precision: Precision = "bf16"
    batch: int = 1
    image_size: int = 640
    confidence: float = 0.5

    def __post_init__(self) -> None:
        require_choice("model", self.model, get_args(Model))
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_multiple("image_size", self.image_size, self._stride)
        require_fraction("confidence", self.confidence)
        self._require_places()

    @property
    def runs_by_ultralytics(self) -> bool:
        """Whether the network is one of ultralytics, licensed under the AGPL-3.0."""
        return self.model not in DETECTORS

    def _require_places(self) -> None:
        """RT-DETR starts from the best of the places on its three grids."""
        geometry = DETECTORS.get(self.model, {})
        if geometry.get("model_type") != "rt_detr":
            return
        wanted = geometry.get("num_queries", _RT_DETR_QUERIES)
        if sum((self.image_size // stride) ** 2 for stride in _RT_DETR_STRIDES) < wanted:
            raise ConfigError(
                f"image_size must give {self.model} at least {wanted} places to look at, "
                f"got {self.image_size}."
            )

    @property
    def _stride(self) -> int:
        if self.runs_by_ultralytics:
            return _ULTRALYTICS_STRIDE
        return STRIDES[DETECTORS[self.model]["model_type"]]


class Detection(NetworkWorkload[DetectionSettings]):
    """Detects objects in random images, and counts images.

    How many boxes are kept depends on the weights: random ones are sure of nothing. The cost is
    that of keeping every box.
    """

    settings_type: ClassVar = DetectionSettings
    unit: ClassVar = "image"
    input_knobs: ClassVar = frozenset({"batch", "confidence"})

    @property
    @override
    def licence(self) -> str | None:
        return _ULTRALYTICS_LICENCE if self.settings.runs_by_ultralytics else None

    @override
    def network(self, device: Any) -> Any:
        return self._library.network_of(self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        return {"forward": self._library.detecting(network, self.settings, device)}

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def counting(self) -> AbstractContextManager[object]:
        from joulelab.estimator.models.detection import everything_survives

        return everything_survives()

    @property
    def _library(self) -> Any:
        from joulelab.workloads import detection_network

        if not self.settings.runs_by_ultralytics:
            return detection_network
        from joulelab.workloads import yolov8_network

        return yolov8_network
