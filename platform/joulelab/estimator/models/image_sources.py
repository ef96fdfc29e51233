"""All networks of torchvision, the image networks of timm, and YOLOs."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.estimator.models.base import Knobs, Model, Source
from joulelab.estimator.models.network import Inputs, NetworkModel, call_in_order
from joulelab.estimator.models.yolo_networks import SCALES, Yolo
from joulelab.registry import unknown_name
from joulelab.tracing.torchvision_shim import ensure_torchvision, everything_survives

ensure_torchvision()

import torchvision.models as zoo  # noqa: E402

# torchvision's documented operations belong to these: 520 after the transform of the weights,
# 16 frames, and images of 512 by 512 where a network scales or takes any size itself.
_SEGMENTATION_SIZE = 520
_FREE_SIZE = 512
_FRAMES = 16
_PLAIN_SIZE = 224
_CLIP = {"image_size": _PLAIN_SIZE, "frames": _FRAMES}
_YOLO_SIZE = 640
_NEEDS_BOXES = "its loss needs boxes to compare with"
_DETECTIONS = 8
"""Objects per image, for the heads of masks and keypoints: COCO has 7.7 (arXiv:1405.0312)."""


_LAYOUT: Mapping[str, KnobValue] = {"channels_last": False}


@dataclass(frozen=True, slots=True)
class _Task:
    """What a family of networks takes."""

    unit: str
    make_inputs: Callable[[int, Knobs], Inputs]
    image_size: int | None = None
    knobs: Mapping[str, KnobValue] = field(default_factory=lambda: _LAYOUT)


def _image(batch: int, knobs: Knobs, channels: int = 3) -> Inputs:
    size = int(str(knobs["image_size"]))
    return {"image": torch.empty(batch, channels, size, size)}


def _frame_pair(batch: int, knobs: Knobs) -> Inputs:
    return {"first frame": _image(batch, knobs)["image"], **_image(batch, knobs)}


def _clip(batch: int, knobs: Knobs) -> Inputs:
    size, frames = (int(str(knobs.get(key, size))) for key, size in _CLIP.items())
    return {"clip": torch.empty(batch, 3, frames, size, size)}


_CLASSIFICATION = _Task(unit="image", make_inputs=_image)
_TASKS: Mapping[str, _Task] = {
    "segmentation": _Task(unit="image", make_inputs=_image, image_size=_SEGMENTATION_SIZE),
    "detection": _Task("image", _image, _FREE_SIZE, {"detections": _DETECTIONS, **_LAYOUT}),
    "optical_flow": _Task(unit="frame pair", make_inputs=_frame_pair, image_size=_FREE_SIZE),
    "video": _Task(unit="clip", make_inputs=_clip, knobs={"frames": _FRAMES}),
}


class TorchvisionSource(Source):
    """Networks for classification, segmentation, detection, video and optical flow.

    Those whose name begins with ``quantized_`` are traced as they are before their conversion
    to integers, which runs on CPUs alone; ask for them in int8.
    """

    @override
    def names(self) -> Sequence[str]:
        return _names()

    @override
    def find(self, name: str) -> Model:
        if name not in _names():
            raise unknown_name("model of torchvision", name, _names())
        builder = zoo.get_model_builder(name)
        family = builder.__module__.removeprefix("torchvision.models.").partition(".")[0]
        task = _TASKS.get(family, _CLASSIFICATION)
        detects = family == "detection"
        return NetworkModel(
            title=name,
            unit=task.unit,
            knobs=_knobs(name, task),
            build=lambda chosen: _built(builder, chosen),
            make_inputs=task.make_inputs,
            call=_detect if detects else call_in_order,
            around=everything_survives if detects else nullcontext,
            untrainable=_NEEDS_BOXES if detects else "",
        )


def _knobs(name: str, task: _Task) -> dict[str, KnobValue]:
    if name.startswith("mvit"):
        return {}  # its positions are learned for one size
    knobs: dict[str, KnobValue] = {"image_size": task.image_size or documented_size(name)}
    return {**knobs, **task.knobs}


def documented_size(name: str) -> int:
    """Return the smallest image size for which torchvision documents weights of ``name``."""
    sizes = [
        crop[0] if isinstance(crop, tuple | list) else crop
        for weights in zoo.get_model_weights(name)
        if (crop := getattr(weights.transforms, "keywords", {}).get("crop_size")) is not None
    ]
    return min(sizes, default=_PLAIN_SIZE)


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(zoo.list_models()))


def _built(builder: Callable[..., torch.nn.Module], knobs: Knobs) -> torch.nn.Module:
    """Build a network without weights, for another image size where it must know that."""
    options: dict[str, Any] = {}
    parameters = inspect.signature(builder).parameters
    module = builder.__module__.rpartition(".")[2]
    if "weights_backbone" in parameters:
        options["weights_backbone"] = None
    if "aux_loss" in parameters:
        options["aux_loss"] = True  # so are the networks that have weights, and they run it
    if module in ("googlenet", "inception"):
        options["init_weights"] = False  # slow, and of no consequence for a trace
    if module == "vision_transformer":
        options["image_size"] = knobs["image_size"]
    elif module == "maxvit":
        options["input_size"] = (knobs["image_size"], knobs["image_size"])
    network = builder(weights=None, **options)
    for part in network.modules() if "detections" in knobs else ():
        if hasattr(part, "detections_per_img"):
            part.detections_per_img = int(str(knobs["detections"]))  # type: ignore[assignment]
    return network


def _detect(network: Any, inputs: Mapping[str, torch.Tensor]) -> object:
    """Call a detection network of torchvision with a list of images."""
    return network(list(inputs["image"].unbind()))


class YoloSource(Source):
    """YOLOv5 and YOLOv8 in their five sizes."""

    @override
    def names(self) -> Sequence[str]:
        return tuple(sorted(SCALES))

    @override
    def find(self, name: str) -> Model:
        if name not in SCALES:
            raise unknown_name("YOLO", name, SCALES)
        return NetworkModel(
            title=name,
            unit="image",
            knobs={"image_size": _YOLO_SIZE, **_LAYOUT},
            build=lambda _: Yolo(name),
            make_inputs=_image,
            untrainable=_NEEDS_BOXES,
        )


class TimmSource(Source):
    """Every architecture that timm lists."""

    @override
    def names(self) -> Sequence[str]:
        return _timm_names()

    @override
    def find(self, name: str) -> Model:
        import timm

        architecture = name.partition(".")[0]  # "resnet50.a1_in1k" names weights too
        if architecture not in _timm_names():
            raise unknown_name("model of timm", name, _timm_names())
        config = timm.get_pretrained_cfg(name)
        channels, size, _ = config.input_size if config is not None else (3, _PLAIN_SIZE, None)

        def build(knobs: Knobs) -> torch.nn.Module:
            asked = knobs["image_size"]
            resized = asked != size and config is not None and config.fixed_input_size
            options: dict[str, Any] = {"img_size": asked} if resized else {}
            return timm.create_model(name, pretrained=False, **options)

        return NetworkModel(
            title=f"timm:{name}",
            unit="image",
            knobs={"image_size": size, **_LAYOUT},
            build=build,
            make_inputs=partial(_image, channels=channels),
        )


@cache
def _timm_names() -> tuple[str, ...]:
    import timm

    return tuple(timm.list_models())
