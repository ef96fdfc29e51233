"""A small diffusion network that is trained to draw handwritten digits."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.network import NetworkWorkload, Programs
from joulelab.workloads.trained_settings import Precision, Weights, check_weights

Scheduler = Literal["ddim", "dpm++"]

_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsDiffusionSettings:
    """Draw handwritten digits with a small diffusion network, without a prompt.

    Attributes:
        weights: trained on this machine, once, in a minute or two; None for random.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers, while convolutions stay in 16 bits.
        batch: Images computed side by side.
        steps: Steps of denoising.
        scheduler: How the steps are taken: ddim, or dpm++ (multistep).
    """

    weights: Weights = "trained"
    precision: Precision = "fp32"
    batch: int = 32
    steps: int = 20
    scheduler: Scheduler = "ddim"

    def __post_init__(self) -> None:
        check_weights(self.weights)
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_count("steps", self.steps)
        if self.steps > _MOST_STEPS:
            raise ConfigError(f"steps must be at most {_MOST_STEPS}, got {self.steps}.")
        require_choice("scheduler", self.scheduler, get_args(Scheduler))


class DigitsDiffusion(NetworkWorkload[DigitsDiffusionSettings]):
    """Draws digits, and counts images. A run is the whole loop over the steps."""

    settings_type: ClassVar = DigitsDiffusionSettings
    unit: ClassVar = "image"
    phases_of_network: ClassVar = ("denoising",)
    input_knobs: ClassVar = frozenset({"batch", "steps", "scheduler"})

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.digits_diffusion_network import load_network

        return load_network(self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.digits_denoising import Denoising

        return {"denoising": Denoising(network, self.settings, self.settings.batch)}

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)
