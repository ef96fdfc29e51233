"""Small networks that are trained on this machine to read and to draw handwritten digits."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.workloads.digits_data import SIDE_PX
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

Scheduler = Literal["ddim", "dpm++"]

_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsSettings(NetworkSettings):
    """What the settings of every network of digits have in common.

    Attributes:
        weights: trained on this machine, once, in a minute or two; None for random.
    """

    weights: Literal["trained"] | None = "trained"
    precision: NetworkPrecision = "fp32"
    batch: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsVitSettings(DigitsSettings):
    """Read handwritten digits with a Vision Transformer of 2 by 2 patches."""


class DigitsVit(NetworkWorkload[DigitsVitSettings]):
    """Reads digits, and counts images."""

    settings_type: ClassVar = DigitsVitSettings
    unit: ClassVar = "image"
    samples_per_run: ClassVar = 256

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.digits_networks import vit_recipe
        from joulelab.workloads.training import load

        return load(vit_recipe(), self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.digits_networks import some_digits

        images = some_digits(self.settings.batch, self.settings.precision, device)
        return {"forward": lambda: network(pixel_values=images)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsLstmSettings(DigitsSettings):
    """Read handwritten digits with an LSTM, a row of 8 pixels at a time.

    Attributes:
        rows: How many rows are read, from the top, before the network must decide.
    """

    rows: int = SIDE_PX

    def __post_init__(self) -> None:
        DigitsSettings.__post_init__(self)
        if self.rows > SIDE_PX:
            raise ConfigError(f"rows must be at most {SIDE_PX}, got {self.rows}.")


class DigitsLstm(NetworkWorkload[DigitsLstmSettings]):
    """Reads digits row by row, and counts sequences."""

    settings_type: ClassVar = DigitsLstmSettings
    unit: ClassVar = "sequence"
    samples_per_run: ClassVar = 256
    input_knobs: ClassVar = frozenset({"batch", "rows"})

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.digits_networks import lstm_recipe
        from joulelab.workloads.training import load

        return load(lstm_recipe(), self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.digits_networks import some_digits

        images = some_digits(self.settings.batch, self.settings.precision, device)
        rows = images[:, 0, : self.settings.rows].contiguous()
        return {"forward": lambda: network(rows)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsDiffusionSettings(DigitsSettings):
    """Draw handwritten digits with a small diffusion network, without a prompt.

    Attributes:
        steps: Steps of denoising.
        scheduler: How the steps are taken: ddim, or dpm++ (multistep).
    """

    batch: int = 32
    steps: int = 20
    scheduler: Scheduler = "ddim"

    def __post_init__(self) -> None:
        DigitsSettings.__post_init__(self)
        if self.steps > _MOST_STEPS:
            raise ConfigError(f"steps must be at most {_MOST_STEPS}, got {self.steps}.")


class DigitsDiffusion(NetworkWorkload[DigitsDiffusionSettings]):
    """Draws digits, and counts images. A run is the whole loop over the steps."""

    settings_type: ClassVar = DigitsDiffusionSettings
    unit: ClassVar = "image"
    phases = ("denoising",)
    input_knobs: ClassVar = frozenset({"batch", "steps", "scheduler"})

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.digits_drawing import recipe
        from joulelab.workloads.training import load

        return load(recipe(), self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.digits_drawing import DigitsDenoising

        settings = self.settings
        denoising = DigitsDenoising(network, settings.scheduler, settings.steps, settings.batch)
        return {"denoising": denoising}
