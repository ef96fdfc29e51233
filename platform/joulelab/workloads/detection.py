"""Detection of objects: a network and the choice among its boxes."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.base import check_knobs, require_fraction, require_multiple
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

Model = Literal[
    "tiny", "rtdetr-r18", "rtdetr-r50", "yolos-tiny", "yolos-small", "yolov8n", "yolov8s", "yolov8m"
]

_COCO_OBJECTS = 80
_COCO_NUMBERS = 91  # of which 11 were never given to an object
_STAGES = {"model_type": "rt_detr_resnet", "out_indices": [2, 3, 4]}

# What differs from the defaults of transformers, as its scripts have it that made the checkpoints
# of the hub: ``convert_rt_detr_original_pytorch_checkpoint_to_hf.py`` (PekingU/rtdetr_r18vd,
# rtdetr_r50vd) and ``convert_yolos_to_pytorch.py`` (hustvl/yolos-tiny, yolos-small).
DETECTORS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {
        "model_type": "rt_detr",
        "num_labels": 4,
        "backbone_config": {
            **_STAGES,
            "embedding_size": 16,
            "hidden_sizes": [16, 16, 32, 32],
            "depths": [1, 1, 1, 1],
            "layer_type": "basic",
        },
        "encoder_in_channels": [16, 32, 32],
        "encoder_hidden_dim": 32,
        "encoder_ffn_dim": 32,
        "encoder_attention_heads": 2,
        "d_model": 32,
        "num_queries": 10,
        "decoder_in_channels": [32, 32, 32],
        "decoder_ffn_dim": 32,
        "decoder_attention_heads": 2,
        "decoder_layers": 1,
    },
    "rtdetr-r18": {
        "model_type": "rt_detr",
        "num_labels": _COCO_OBJECTS,
        "backbone_config": {
            **_STAGES,
            "hidden_sizes": [64, 128, 256, 512],
            "depths": [2, 2, 2, 2],
            "layer_type": "basic",
        },
        "encoder_in_channels": [128, 256, 512],
        "hidden_expansion": 0.5,
        "decoder_layers": 3,
    },
    "rtdetr-r50": {"model_type": "rt_detr", "num_labels": _COCO_OBJECTS},
    "yolos-tiny": {
        "model_type": "yolos",
        "num_labels": _COCO_NUMBERS,
        "image_size": [800, 1333],
        "hidden_size": 192,
        "intermediate_size": 768,
        "num_attention_heads": 3,
        "use_mid_position_embeddings": False,
    },
    "yolos-small": {
        "model_type": "yolos",
        "num_labels": _COCO_NUMBERS,
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_attention_heads": 6,
    },
}
"""Configurations of transformers by name; tiny is for tests."""

STRIDES: Mapping[str, int] = {"rt_detr": 32, "yolos": 16, "ultralytics": 32}
"""What the sides of an image must be a multiple of: the coarsest grid, the patch."""

_RT_DETR_STRIDES = (8, 16, 32)
_RT_DETR_QUERIES = 300  # transformers' default
_ULTRALYTICS_LICENCE = "AGPL-3.0 (ultralytics)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionSettings(NetworkSettings):
    """Detect objects in images: the network, then its boxes above a confidence.

    RT-DETR and YOLOS run by transformers. YOLOv8 runs by ultralytics, which is licensed under the
    AGPL-3.0, is not part of joulelab, and is installed only by pip install 'joulelab[detection]'.

    Attributes:
        model: The network; yolov8n, yolov8s and yolov8m need ultralytics (AGPL-3.0).
        weights: Folder or hub id of a checkpoint of that geometry, for YOLOv8 a .pt file that you
            trust, for it can run code; by default the weights are random, which needs no download.
        precision: Number format of weights and products; int8, int4 and fp8 are those of the linear
            layers, of which YOLOv8 has none.
        image_size: Side of an image in pixels, a multiple of 32 (of 16 for YOLOS).
        confidence: Least confidence of a box that is kept, from 0 to 1.
    """

    model: Model = "rtdetr-r50"
    image_size: int = 640
    confidence: float = 0.5

    def __post_init__(self) -> None:
        check_knobs(self, but=("confidence",))
        kind = DETECTORS.get(self.model, {}).get("model_type", "ultralytics")
        require_multiple("image_size", self.image_size, STRIDES[kind])
        require_fraction("confidence", self.confidence)
        if kind == "rt_detr":
            wanted = DETECTORS[self.model].get("num_queries", _RT_DETR_QUERIES)
            if sum((self.image_size // stride) ** 2 for stride in _RT_DETR_STRIDES) < wanted:
                raise ConfigError(
                    f"image_size must give {self.model} at least {wanted} places to look at, "
                    f"got {self.image_size}."
                )

    @property
    def runs_by_ultralytics(self) -> bool:
        """Whether the network is one of ultralytics, licensed under the AGPL-3.0."""
        return self.model not in DETECTORS


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
        settings = self.settings
        geometry = DETECTORS.get(settings.model, settings.model)  # ultralytics knows its own
        images = partial(self._images, device)
        return self._library.detector(geometry, settings, images, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        images, confidence = self._images(device), self.settings.confidence
        return {"forward": self._library.detecting(network, images, confidence)}

    @override
    def counting(self) -> AbstractContextManager[object]:
        from joulelab.tracing.torchvision_shim import everything_survives

        return everything_survives()

    def _images(self, device: Any) -> Any:
        from joulelab.workloads.vision_network import random_images

        settings = self.settings
        return random_images(settings.batch, settings.image_size, settings.precision, device)

    @property
    def _library(self) -> Any:
        if self.settings.runs_by_ultralytics:
            from joulelab.workloads import yolov8_network

            return yolov8_network
        from joulelab.workloads import vision_network

        return vision_network
