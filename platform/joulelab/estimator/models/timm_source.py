"""The image networks of timm, through its own constructor.

Imports torch, so it is imported only by functions that find or trace a model.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from typing_extensions import override

from joulelab.estimator.models.base import Knobs, Model, Source
from joulelab.estimator.models.network import Inputs, NetworkModel
from joulelab.registry import unknown_name
from joulelab.tracing.torchvision_shim import ensure_torchvision

ensure_torchvision()

import timm  # noqa: E402


class TimmSource(Source):
    """Every architecture that timm lists."""

    @override
    def names(self) -> Sequence[str]:
        return _names()

    @override
    def find(self, name: str) -> Model:
        architecture = name.partition(".")[0]  # "resnet50.a1_in1k" names weights too
        if architecture not in _names():
            raise unknown_name("model of timm", name, _names())
        channels, size = _input_of(name)
        return NetworkModel(
            title=f"timm:{name}",
            unit="image",
            knobs={"image_size": size},
            build=lambda knobs: _built(name, knobs, size),
            make_inputs=lambda batch, knobs: _image(batch, channels, knobs),
        )


@cache
def _names() -> tuple[str, ...]:
    return tuple(timm.list_models())


def _input_of(name: str) -> tuple[int, int]:
    """Return channels and image size of the network's documented input."""
    config = timm.get_pretrained_cfg(name)
    channels, height, _ = config.input_size if config is not None else (3, 224, 224)
    return channels, height


def _built(name: str, knobs: Knobs, default_size: int) -> torch.nn.Module:
    size = knobs["image_size"]
    config = timm.get_pretrained_cfg(name)
    resized = size != default_size and config is not None and config.fixed_input_size
    options: dict[str, Any] = {"img_size": size} if resized else {}
    return timm.create_model(name, pretrained=False, **options)


def _image(batch: int, channels: int, knobs: Knobs) -> Inputs:
    size = int(str(knobs["image_size"]))
    return {"image": torch.empty(batch, channels, size, size)}
