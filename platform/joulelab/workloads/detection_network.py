"""Detectors of transformers, and its choice among their boxes.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

from collections.abc import Callable
from typing import Any

import torch

from joulelab.workloads.detection import DetectionSettings
from joulelab.workloads.vision_geometry import DETECTORS
from joulelab.workloads.vision_network import detector, random_images, settle_norms

from transformers import RTDetrImageProcessor, YolosImageProcessor  # isort: skip

_PROCESSORS: dict[str, Any] = {"rt_detr": RTDetrImageProcessor, "yolos": YolosImageProcessor}


def network_of(settings: DetectionSettings, device: torch.device) -> torch.nn.Module:
    """Return a network on ``device``.

    Raises:
        ConfigError: If the weights cannot be read, or are of another geometry.
    """
    network = detector(DETECTORS[settings.model], settings, device)
    if settings.weights is None:
        images = random_images(settings.batch, settings.image_size, settings.precision, device)
        settle_norms(network, lambda: network(pixel_values=images))
    return network


def detecting(
    network: torch.nn.Module, settings: DetectionSettings, device: torch.device
) -> Callable[[], object]:
    """Return what detects objects in one batch of random images.

    It waits for the device, as everyone's does: how many boxes are kept decides their shape.
    """
    images = random_images(settings.batch, settings.image_size, settings.precision, device)
    sizes = torch.full((settings.batch, 2), settings.image_size, device=device)
    kind = DETECTORS[settings.model]["model_type"]
    chosen = _PROCESSORS[kind]().post_process_object_detection

    def detect() -> object:
        found = network(pixel_values=images)
        return chosen(found, threshold=settings.confidence, target_sizes=sizes)

    return detect
