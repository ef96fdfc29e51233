"""A small Vision Transformer that is trained to read handwritten digits."""

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from typing_extensions import override

from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.network import NetworkWorkload, Programs
from joulelab.workloads.trained_settings import Precision, Weights, check_weights

_IMAGES_PER_RUN = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsVitSettings:
    """Read handwritten digits with a Vision Transformer of 2 by 2 patches.

    Attributes:
        weights: trained on this machine, once, in a minute or so; None for random.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers.
        batch: Images computed side by side.
    """

    weights: Weights = "trained"
    precision: Precision = "fp32"
    batch: int = 64

    def __post_init__(self) -> None:
        check_weights(self.weights)
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)


class DigitsVit(NetworkWorkload[DigitsVitSettings]):
    """Reads digits, and counts images."""

    settings_type: ClassVar = DigitsVitSettings
    unit: ClassVar = "image"

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.digits_vit_network import load_network

        return load_network(self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.digits_tensors import some_digits

        images = some_digits(self.settings.batch, self.settings.precision, device)
        return {"forward": lambda: network(pixel_values=images)}

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def executions(self, phase: str) -> int:
        return max(_IMAGES_PER_RUN // self.settings.batch, 1)
