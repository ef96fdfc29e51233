"""YOLOv8 through ultralytics, which is licensed under the AGPL-3.0 and is not part of joulelab.

It is an optional extra: nothing here runs unless the user has installed ultralytics and asks for
one of its networks. What follows for those who pass such a program on, its licence says.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from joulelab.errors import ConfigError
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads.formats import require_file, storage_dtype
from joulelab.workloads.network import NetworkSettings
from joulelab.workloads.vision_network import settle_norms

_NUM_CLASSES = 80  # of COCO, for which the networks were published
_OVERLAP = 0.7  # intersection over union above which ultralytics predicts one object, not two


def detector(
    model: str, settings: NetworkSettings, images: Callable[[], torch.Tensor], device: torch.device
) -> torch.nn.Module:
    """Return a fused detector; ConfigError if ultralytics is absent, or weights unreadable."""
    with unset_fake_temporarily():  # its constructor reads values
        network: Any = _network(model, settings, device)
    if settings.weights is None:
        batch = images()
        settle_norms(network, lambda: network(batch))
    with unset_fake_temporarily():
        network.fuse(verbose=False)
        head = network.model[-1]
        head.stride = tuple(head.stride.tolist())  # numbers, which it need not read from tensors
    built: torch.nn.Module = network
    return built


def detecting(network: Any, images: torch.Tensor, confidence: float) -> Callable[[], object]:
    """Return what detects objects in a batch as the library predicts, overlaps suppressed."""
    suppressed = _library()[1]

    def detect() -> object:
        return suppressed(network(images), conf_thres=confidence, iou_thres=_OVERLAP)

    return detect


def _library() -> tuple[Any, Any]:
    """Return the class of the network and the function that suppresses overlapping boxes."""
    ensure_torchvision()
    os.environ.setdefault("YOLO_OFFLINE", "true")  # it looks for a network when imported
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")  # and installs what it misses
    try:
        from ultralytics.nn.tasks import DetectionModel
        from ultralytics.utils.nms import non_max_suppression
    except ModuleNotFoundError as error:
        raise ConfigError(
            "YOLOv8 runs through ultralytics, which is licensed under the AGPL-3.0 and is not "
            "part of joulelab: pip install 'joulelab[detection]' if you accept its terms, or take "
            f"rtdetr-r18, rtdetr-r50, yolos-tiny or yolos-small. {error}"
        ) from error
    return DetectionModel, non_max_suppression


def _network(model: str, settings: NetworkSettings, device: torch.device) -> Any:
    if settings.weights is None:
        network = _library()[0](f"{model}.yaml", nc=_NUM_CLASSES, verbose=False)
    else:
        from ultralytics.nn.tasks import load_checkpoint

        network = load_checkpoint(str(require_file(settings.weights)))[0]
        found = str(getattr(network, "yaml_file", "") or network.yaml.get("yaml_file", ""))
        if model not in found:
            raise ConfigError(
                f"weights must be of the geometry that model names, {model}, but "
                f"{settings.weights!r} is of {found or 'another'}."
            )
    network.to(device, storage_dtype(settings.precision))
    network.train(mode=False)
    return network
