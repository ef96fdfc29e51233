"""Images as networks take them: sized and centred by the libraries that publish the networks.

Imports torch, torchvision and transformers, so it is imported only by functions that run a network.
"""

from collections.abc import Callable
from typing import Any

import torch

from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads import hub

ensure_torchvision()

from torchvision.models import ResNet50_Weights  # noqa: E402
from transformers import (  # noqa: E402
    AutoImageProcessor,
    RTDetrImageProcessor,
    ViTImageProcessor,
    YolosImageProcessor,
)

Prepared = Callable[[list[Any]], torch.Tensor]

_DETECTION: dict[str, Any] = {"rt_detr": RTDetrImageProcessor, "yolos": YolosImageProcessor}
_PUBLISHED_PX, _PUBLISHED_RESIZED_PX = 224, 232


def prepared_for_vit(weights: str | None, size_px: int) -> Prepared:
    """Return what prepares images as the checkpoint ``weights`` says, or as ViT's own do.

    Raises:
        ConfigError: If the checkpoint cannot be read.
    """
    processor = _published(weights) or ViTImageProcessor(size=_square(size_px))
    return lambda images: as_pixels(processor, images)


def prepared_for_resnet50(size_px: int) -> Prepared:
    """Return what prepares images as for torchvision's IMAGENET1K_V2, at another size if asked."""
    resized_px = round(size_px * _PUBLISHED_RESIZED_PX / _PUBLISHED_PX)
    prepare = ResNet50_Weights.IMAGENET1K_V2.transforms(crop_size=size_px, resize_size=resized_px)
    return lambda images: torch.stack([prepare(torch.as_tensor(image)) for image in images])


def detection_processor(kind: str, weights: str | None, size_px: int) -> Any:
    """Return the processor of detectors of ``kind``, for square images.

    Raises:
        ConfigError: If that of the checkpoint ``weights`` cannot be read.
    """
    processor = _published(weights) or _DETECTION[kind]()
    processor.size = _square(size_px)
    return processor


def _published(weights: str | None) -> Any:
    if weights is None:
        return None
    with hub.reading(weights):
        return AutoImageProcessor.from_pretrained(weights)  # type: ignore[no-untyped-call]


def _square(size_px: int) -> dict[str, int]:
    return {"height": size_px, "width": size_px}


def as_pixels(processor: Any, images: list[Any]) -> torch.Tensor:
    """Return what ``processor`` of transformers makes of images (3, height, width), 0 to 1."""
    pixels: torch.Tensor = processor(
        images, do_rescale=False, return_tensors="pt", input_data_format="channels_first"
    ).pixel_values
    return pixels
