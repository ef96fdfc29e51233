"""Image classification by ResNet-50 of torchvision."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.workloads.knobs import require_choice, require_count, require_multiple, require_switch
from joulelab.workloads.network import NetworkWorkload, Programs

Precision = Literal["fp32", "tf32", "fp16", "bf16"]

_STRIDE = 32
_IMAGES_PER_RUN = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Resnet50Settings:
    """Classify images with ResNet-50.

    Attributes:
        weights: File with the network's state, as torchvision publishes it (.pth); by default the
            weights are random, which takes the same time and energy and needs no download.
        precision: Number format of weights and activations.
        batch: Images computed side by side.
        channels_last: Store images and weights with their channels innermost, as tensor cores
            take them; else PyTorch's default, channels outermost.
        image_size: Side of an image in pixels, a multiple of 32.
    """

    weights: str | None = None
    precision: Precision = "bf16"
    batch: int = 32
    channels_last: bool = True
    image_size: int = 224

    def __post_init__(self) -> None:
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_switch("channels_last", self.channels_last)
        require_multiple("image_size", self.image_size, _STRIDE)


class Resnet50(NetworkWorkload[Resnet50Settings]):
    """Classifies random images, and counts them."""

    settings_type: ClassVar = Resnet50Settings
    unit: ClassVar = "image"

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.state_file import load_state
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

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def executions(self, phase: str) -> int:
        return max(_IMAGES_PER_RUN // self.settings.batch, 1)

    @property
    def _layout(self) -> Any:
        import torch

        return torch.channels_last if self.settings.channels_last else torch.contiguous_format

    def _images(self, device: Any) -> Any:
        from joulelab.workloads.vision_network import random_images

        settings = self.settings
        images = random_images(settings.batch, settings.image_size, settings.precision, device)
        return images.to(memory_format=self._layout)
