"""The Pareto front of a comparison: what no other one beats in time, energy and price."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from joulelab.analysis.estimates import wording
from joulelab.core.pareto import non_dominated
from joulelab.errors import ConfigError
from joulelab.estimator.question import Cell

_RESOLUTION = 0.01
"""Share by which estimates must differ to be told apart, as in sweeps."""


def with_front(cells: Sequence[Cell], prices: Mapping[str, float]) -> tuple[Cell, ...]:
    """Return ``cells`` with their prices, and whether each is on the front of its model.

    Time and energy are those of a unit of the last phase's work. What does not fit its device, or
    is projected without silicon, is not compared.

    Args:
        cells: Answers, and combinations without one.
        prices: Of one device by its key, all or none; a power mode costs what the device does.

    Raises:
        ConfigError: If a price is missing, or is not positive and finite.
    """
    priced = tuple(replace(cell, price=_price(cell, prices)) for cell in cells)
    marks: dict[int, bool] = {}
    for model in dict.fromkeys(cell.model for cell in priced):
        places = [i for i, cell in enumerate(priced) if cell.model == model and _compares(cell)]
        if len(places) > 1:
            costs = np.array([costs_of(priced[place]) for place in places])
            marks |= dict(zip(places, map(bool, non_dominated(costs, _RESOLUTION)), strict=True))
    return tuple(replace(cell, on_front=marks.get(i)) for i, cell in enumerate(priced))


def _price(cell: Cell, prices: Mapping[str, float]) -> float | None:
    if not prices:
        return None
    key = cell.processor.key.partition(":")[0]
    price = prices.get(cell.processor.key, prices.get(key))
    if price is None or not price > 0 or not isfinite(price):
        raise ConfigError(
            f"--price must give each device that is compared a positive price, got {price} for "
            f"{key}: add --price {key}=PRICE."
        )
    return price * (cell.estimate.num_devices if cell.estimate else 1)


def _compares(cell: Cell) -> bool:
    found = cell.estimate
    return found is not None and found.fits and found.confidence.tier != "D"


def costs_of(cell: Cell) -> tuple[float, ...]:
    """Return time in s and energy in J per unit of the last phase, and the price if known."""
    phase = wording.last_phase(cell)
    price = () if cell.price is None else (cell.price,)
    return phase.time_per_unit_s, phase.energy_per_unit_j, *price


def front_sentences(cells: Sequence[Cell]) -> list[str]:
    """Say of each model that was compared which cells are on the front, fastest first."""
    sentences = []
    models = dict.fromkeys(cell.model for cell in cells)
    for model in models:
        compared = [cell for cell in cells if cell.model == model and cell.on_front is not None]
        front = sorted((cell for cell in compared if cell.on_front), key=costs_of)
        if not front:
            continue
        what = "time and energy" if front[0].price is None else "time, energy and price"
        names = "; ".join(wording.cell_name(cell, compared) for cell in front)
        head = f"{model}: on" if len(models) > 1 else "On"
        sentences.append(f"{head} the front of {what}, fastest first: {names}.")
    return sentences
