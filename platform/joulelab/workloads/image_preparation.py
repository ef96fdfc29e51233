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
from transformers import AutoImageProcessor, ViTImageProcessor  # noqa: E402

Prepared = Callable[[list[Any]], torch.Tensor]

_PUBLISHED_PX, _PUBLISHED_RESIZED_PX = 224, 232


def prepared_for_vit(weights: str | None, size_px: int) -> Prepared:
    """Return what prepares images as the checkpoint ``weights`` says, or as ViT's own do.

    Raises:
        ConfigError: If the checkpoint cannot be read.
    """
    if weights is None:
        processor: Any = ViTImageProcessor(size={"height": size_px, "width": size_px})
    else:
        with hub.reading(weights):
            processor = AutoImageProcessor.from_pretrained(weights)  # type: ignore[no-untyped-call]

    return lambda images: as_pixels(processor, images)


def prepared_for_resnet50(size_px: int) -> Prepared:
    """Return what prepares images as for torchvision's IMAGENET1K_V2, at another size if asked."""
    resized_px = round(size_px * _PUBLISHED_RESIZED_PX / _PUBLISHED_PX)
    prepare = ResNet50_Weights.IMAGENET1K_V2.transforms(crop_size=size_px, resize_size=resized_px)
    return lambda images: torch.stack([prepare(torch.as_tensor(image)) for image in images])


def as_pixels(processor: Any, images: list[Any]) -> torch.Tensor:
    """Return what ``processor`` of transformers makes of images (3, height, width), 0 to 1."""
    pixels: torch.Tensor = processor(
        images, do_rescale=False, return_tensors="pt", input_data_format="channels_first"
    ).pixel_values
    return pixels
