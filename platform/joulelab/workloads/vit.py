"""Image classification by a Vision Transformer of transformers."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.network import NetworkWorkload, Programs
from joulelab.workloads.vision_geometry import VIT

Model = Literal["tiny", "vit-base", "vit-large"]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]

_IMAGES_PER_RUN = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class VitSettings:
    """Classify images with a Vision Transformer of 16 by 16 patches.

    Attributes:
        model: Geometry of the network; images are 224 by 224 (tiny, for tests: 32 by 32).
        weights: Folder or hub id of a checkpoint of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers.
        batch: Images computed side by side.
    """

    model: Model = "vit-base"
    weights: str | None = None
    precision: Precision = "bf16"
    batch: int = 32

    def __post_init__(self) -> None:
        require_choice("model", self.model, get_args(Model))
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)


class Vit(NetworkWorkload[VitSettings]):
    """Classifies random images, and counts them."""

    settings_type: ClassVar = VitSettings
    unit: ClassVar = "image"

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.vision_network import classifier

        return classifier(VIT[self.settings.model], self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.vision_network import random_images

        size = network.config.image_size
        images = random_images(self.settings.batch, size, self.settings.precision, device)
        return {"forward": lambda: network(pixel_values=images)}

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def executions(self, phase: str) -> int:
        return max(_IMAGES_PER_RUN // self.settings.batch, 1)
