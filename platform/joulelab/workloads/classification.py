"""Image classification: a Vision Transformer of transformers, ResNet-50 of torchvision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.core.number_format import FloatPrecision
from joulelab.workloads.base import require_multiple
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

VitModel = Literal["tiny", "vit-base", "vit-large"]

_IMAGENET_CLASSES = 1000
_RESNET_STRIDE = 32

# What differs from the defaults of transformers: google/vit-base-patch16-224 and
# google/vit-large-patch16-224 (arXiv:2010.11929, table 1).
VIT_GEOMETRIES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {
        "model_type": "vit",
        "num_labels": 10,
        "image_size": 32,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    },
    "vit-base": {"model_type": "vit", "num_labels": _IMAGENET_CLASSES},
    "vit-large": {
        "model_type": "vit",
        "num_labels": _IMAGENET_CLASSES,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    },
}
"""Configurations of transformers by name; tiny is for tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitSettings(NetworkSettings):
    """Classify images with a Vision Transformer of 16 by 16 patches.

    Attributes:
        model: Geometry of the network; images are 224 by 224 (tiny, for tests: 32 by 32).
    """

    model: VitModel = "vit-base"
    batch: int = 32


class Vit(NetworkWorkload[VitSettings]):
    """Classifies random images, and counts them."""

    settings_type: ClassVar = VitSettings
    unit: ClassVar = "image"
    samples_per_run: ClassVar = 32

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.vision_network import classifier

        return classifier(VIT_GEOMETRIES[self.settings.model], self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.vision_network import random_images

        size = network.config.image_size
        images = random_images(self.settings.batch, size, self.settings.precision, device)
        return {"forward": lambda: network(pixel_values=images)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resnet50Settings(NetworkSettings):
    """Classify images with ResNet-50.

    Attributes:
        weights: File with the network's state, as torchvision publishes it (.pth); by default the
            weights are random, which takes the same time and energy and needs no download.
        precision: Number format of weights and activations.
        channels_last: Store images and weights with their channels innermost, as tensor cores
            take them; else PyTorch's default, channels outermost.
        image_size: Side of an image in pixels, a multiple of 32.
    """

    precision: FloatPrecision = "bf16"
    batch: int = 32
    channels_last: bool = True
    image_size: int = 224

    def __post_init__(self) -> None:
        NetworkSettings.__post_init__(self)
        require_multiple("image_size", self.image_size, _RESNET_STRIDE)


class Resnet50(NetworkWorkload[Resnet50Settings]):
    """Classifies random images, and counts them."""

    settings_type: ClassVar = Resnet50Settings
    unit: ClassVar = "image"
    samples_per_run: ClassVar = 32

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.formats import load_state
        from joulelab.workloads.vision_network import residual_network, settle_norms

        settings = self.settings
        network = residual_network("resnet50", settings.precision, self._layout, device)
        if settings.weights is None:
            images = self._images(device)
            settle_norms(network, lambda: network(images))
        else:
            load_state(network, settings.weights)
        return network

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        images = self._images(device)
        return {"forward": lambda: network(images)}

    @property
    def _layout(self) -> Any:
        import torch

        return torch.channels_last if self.settings.channels_last else torch.contiguous_format

    def _images(self, device: Any) -> Any:
        from joulelab.workloads.vision_network import random_images

        settings = self.settings
        images = random_images(settings.batch, settings.image_size, settings.precision, device)
        return images.to(memory_format=self._layout)
