"""Handwritten digits, and the small networks trained on this machine to read and to draw them.

They come with scikit-learn: 1797 grey images of 8 by 8 pixels, those of the test set of Alpaydin
and Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning Repository, 1998.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.workloads.knobs import check_knobs
from joulelab.workloads.network import NetworkWorkload, Programs

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

Scheduler = Literal["ddim", "dpm++"]

SIDE_PX = 8
NUM_CLASSES = 10

_LARGEST = 16
_MOST_STEPS = 1000
_NUM_TRAINING = 1197
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digits:
    """Images and what they show.

    Attributes:
        images: Shape (n, 1, 8, 8), from 0 to 1.
        labels: The digits, shape (n,).
    """

    images: FloatArray
    labels: IntArray

    def __getitem__(self, which: Any) -> "Digits":
        return Digits(images=self.images[which], labels=self.labels[which])


@cache
def all_digits() -> Digits:
    """Return the digits, in an order drawn once and for all."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / _LARGEST).astype(np.float32).reshape(-1, 1, SIDE_PX, SIDE_PX)
    order = np.random.default_rng(_SEED).permutation(len(labels))
    return Digits(images=images, labels=labels.astype(np.int64))[order]


def training_digits() -> Digits:
    """Return the two thirds on which networks are trained."""
    return all_digits()[:_NUM_TRAINING]


def held_out_digits() -> Digits:
    """Return the third that no classifier has seen."""
    return all_digits()[_NUM_TRAINING:]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsSettings:
    """What the settings of every network of digits have in common.

    Attributes:
        weights: trained on this machine, once, in a minute or two; None for random.
        precision: Number format of weights and activations.
        batch: Images computed side by side.
    """

    weights: Literal["trained"] | None = "trained"
    precision: NetworkPrecision = "fp32"
    batch: int = 64

    def __post_init__(self) -> None:
        check_knobs(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsVitSettings(DigitsSettings):
    """Read handwritten digits with a Vision Transformer of 2 by 2 patches.

    Attributes:
        weights: trained on this machine, once, in a minute or so; None for random.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers.
    """


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
        weights: trained on this machine, once, in a minute or so; None for random.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers after the LSTM, which itself stays in 16 bits.
        batch: Sequences computed side by side.
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
        weights: trained on this machine, once, in a minute or two; None for random.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers, while convolutions stay in 16 bits.
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
        from joulelab.workloads.digits_drawing import Denoising

        return {"denoising": Denoising(network, self.settings, self.settings.batch)}
