"""Estimates of devices side by side, or of one family down to the events inside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro
from rich.console import RenderableType
from rich.text import Text
from typing_extensions import override

from joulelab.analysis.estimates.overview import (
    contrast_table,
    front_sentences,
    price_of,
    ranked,
    with_front,
)
from joulelab.cli import words
from joulelab.cli.estimate import Estimate
from joulelab.errors import ConfigError
from joulelab.estimator.question import Cell
from joulelab.hardware.power_modes import find_processor
from joulelab.hardware.processor import Family

Prices = Annotated[
    tuple[tuple[str, ...], ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(metavar="DEVICE=PRICE[,DEVICE=PRICE...]"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Estimate):
    """Put devices side by side for one model, the one that needs least energy first.

    A star marks those that no other one beats in time, energy and, where given, price.
    """

    # Devices that `joulelab processors` lists.
    device: words.Names = "xeon_8490h,h200_sxm,jetson_orin_agx,tpu_v4,kpu_t256"
    # Price of one of each device, all in one currency, such as h200=31000. (repeatable)
    price: Prices = ()

    @override
    def predict(self) -> tuple[Cell, ...]:
        prices = read_prices(self.price)
        for name in words.devices(self.device, self.power_mode):
            price_of(find_processor(name).key, prices)
        return with_front(ranked(Estimate.predict(self)), prices)

    @override
    def shown(self, cells: Sequence[Cell]) -> Iterator[RenderableType]:
        yield from Estimate.shown(self, cells)
        if (table := contrast_table(cells)) is not None:
            yield table
        yield from map(Text, front_sentences(cells))


def read_prices(given: Prices) -> dict[str, float]:
    """Return the price of each device by its key in the catalogue.

    Raises UnknownNameError if there is no such device, ConfigError if a price is none.
    """
    prices = {}
    for word in (word for some in given for each in some for word in each.split(",")):
        name, _, price = word.partition("=")
        try:
            prices[find_processor(name).key] = float(price)
        except ValueError as error:
            raise ConfigError(f"--price takes DEVICE=PRICE, got {word!r}.") from error
    return prices


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyEstimate(Estimate):
    """An estimate down to architectural events, on devices of one family."""

    family: ClassVar[Family]

    events: bool = True  # Break energies down to architectural events.

    @override
    def predict(self) -> tuple[Cell, ...]:
        for name in words.names(self.device, "device"):
            found = find_processor(name).family
            if found != self.family:
                raise ConfigError(
                    f"{name} is a {found.upper()} and this command is for {self.family.upper()}s; "
                    f"use `joulelab estimate-{found}`."
                )
        return Estimate.predict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateCpu(FamilyEstimate):
    """Predict models on CPUs, down to the events of a stored program.

    Its pipeline, register file, caches and memory, scalar, vector and matrix units, branches.
    """

    family: ClassVar[Family] = "cpu"
    device: words.Names = "xeon_8490h"  # CPUs that `joulelab processors --family cpu` lists.


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateGpu(FamilyEstimate):
    """Predict models on GPUs, down to the events of SIMT execution.

    Its tensor and vector units, register file, shared memory, L2 and memory, scheduling,
    divergence, coalescing, barriers, launches.
    """

    family: ClassVar[Family] = "gpu"
    device: words.Names = "h200_sxm"  # GPUs that `joulelab processors --family gpu` lists.


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateTpu(FamilyEstimate):
    """Predict models on TPUs, down to the events of systolic arrays.

    Its arrays, weight tiles, activation stream, accumulators, unified buffer, vector and scalar
    units, control, filling and draining.
    """

    family: ClassVar[Family] = "tpu"
    device: words.Names = "tpu_v4"  # TPUs that `joulelab processors --family tpu` lists.


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateKpu(FamilyEstimate):
    """Predict models on KPUs, down to the events of domain flow; projected, without silicon.

    Its tiles, tokens in and out, local and shared memories, network on chip, streamers and DMA,
    the loading of programs.
    """

    family: ClassVar[Family] = "kpu"
    device: words.Names = "kpu_t256"  # KPUs that `joulelab processors --family kpu` lists.
