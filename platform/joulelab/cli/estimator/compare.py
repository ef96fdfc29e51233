"""``joulelab compare``: devices side by side, and which of them no other one beats."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import RenderableType
from rich.text import Text
from typing_extensions import override

from joulelab.analysis.estimates.overview import contrast_table, front_sentences, ranked, with_front
from joulelab.cli import words
from joulelab.cli.estimator.estimate import Estimate
from joulelab.errors import ConfigError
from joulelab.estimator.question import Cell
from joulelab.hardware.power_modes import find_processor

Prices = Annotated[
    tuple[tuple[str, ...], ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(metavar="DEVICE=PRICE[,DEVICE=PRICE...]"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Estimate):
    """Put devices side by side for one model, the one that needs least energy first.

    A star marks those that no other one beats in time, energy and, where given, price.

    Attributes:
        device: Devices that `joulelab processors` lists.
        price: Price of one of each device, all in one currency, such as h200=31000. (repeatable)
    """

    device: words.Names = "xeon_8490h,h200_sxm,jetson_orin_agx,tpu_v4,kpu_t256"
    price: Prices = ()

    @override
    def predict(self) -> tuple[Cell, ...]:
        prices = read_prices(self.price)
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
