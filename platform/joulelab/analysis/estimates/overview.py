"""Estimates side by side, a line each, for a terminal of 100 columns; which of them none beats."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import isfinite

import numpy as np
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates import wording
from joulelab.analysis.estimates.detail import bar, component_legend, stacked_bar
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import fitting, numbers, quiet_table, words
from joulelab.core.comparison import non_dominated
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import COMPONENTS, Estimate, PhaseEstimate
from joulelab.estimator.question import Cell

_NUMBERS = ("batch",)
_FIGURES = ("time", "energy", "power", "energy into", "set by", "memory", "tier")
PAGE_FIGURES = (
    "time", "energy", "mean power\nW", *(f"{name}\nof energy" for name in COMPONENTS),
    "time set by", "memory needed", "tier",
)  # fmt: skip
"""What a page shows, which has room for words."""
_LEFT = ("energy into", "set by", "time set by")
_CAPPED = 0.005  # shares of time below are not worth a mark
_LEAST_WANTED = ("tier", "energy into", "memory", "set by")
RESOLUTION = 0.01  # share by which estimates must differ to count as different, as in sweeps


def answers(cells: Sequence[Cell]) -> list[str]:
    """Say of each model which cell is best; nothing of a model with one answer."""
    models = dict.fromkeys(cell.model for cell in cells)
    sentences = {model: answer([cell for cell in cells if cell.model == model]) for model in models}
    several = len(models) > 1
    return [f"{model}: {one}" if several else one for model, one in sentences.items() if one]


def answer(cells: Sequence[Cell]) -> str:
    """Say which cell needs least energy and which least time per unit of work.

    Only those that fit their device are compared, by their last phase: decode of a language
    model. Empty where there are not two of the same kind of work.
    """
    fitting = [cell for cell in cells if cell.estimate is not None and cell.estimate.fits]
    if len(fitting) < 2 or len({(c.model, wording.estimate_of(c).unit) for c in fitting}) > 1:
        return ""
    real = [cell for cell in fitting if wording.estimate_of(cell).confidence.tier != "D"]
    projected = [cell for cell in fitting if wording.estimate_of(cell).confidence.tier == "D"]
    if not (real and projected):
        return _best(fitting, cells)
    frugal = min(projected, key=_energy_j)
    if _energy_j(frugal) >= min(map(_energy_j, real)):
        return _best(real, cells)
    return (
        f"{_best(real, cells)} {wording.cell_name(frugal, cells)} is projected at {_least(frugal)}."
    )


def ranked(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return ``cells`` by energy per unit of work; those that do not fit or run come last."""

    def rank(cell: Cell) -> tuple[int, float]:
        if cell.estimate is None:
            return 2, 0.0
        return int(not cell.estimate.fits), _energy_j(cell)

    return tuple(sorted(cells, key=rank))


def _energy_j(cell: Cell) -> float:
    return wording.last_phase(cell).energy_per_unit_j


def _time_s(cell: Cell) -> float:
    return wording.last_phase(cell).time_per_unit_s


def _least(cell: Cell) -> str:
    return brief(_energy_j(cell), f"J/{wording.estimate_of(cell).unit}")


def _best(fitting: Sequence[Cell], cells: Sequence[Cell]) -> str:
    frugal = min(fitting, key=_energy_j)
    fast = min(fitting, key=_time_s)
    quick = [cell for cell in fitting if _time_s(cell) <= (1 + RESOLUTION) * _time_s(fast)]
    estimate = wording.estimate_of(frugal)
    what = f" of {wording.last_phase(frugal).phase}" if len(estimate.phases) > 1 else ""
    time = brief(_time_s(fast), f"s/{estimate.unit}")
    sentence = f"Least energy{what}: {wording.cell_name(frugal, cells)} with {_least(frugal)}"
    caveat = _caveat(frugal, fitting, cells)
    if frugal in quick:
        place = "the fastest too" if len(quick) == 1 else "none faster,"
        return f"{sentence}, {place} with {time}.{caveat}"
    tier = wording.estimate_of(fast).confidence.tier
    doubt = f" (confidence {tier}, {wording.TIER_WORDS[tier]})" if tier > "B" else ""
    first, *others = (wording.cell_name(cell, cells) for cell in sorted(quick, key=_time_s))
    named = [first, *others] if len(others) < 2 else [first, f"{len(others)} others"]
    return f"{sentence}.{caveat} Least time: {' and '.join(named)} with {time}{doubt}."


def _caveat(frugal: Cell, fitting: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Say how sure the least energy is if others are surer of theirs, and who is first of those."""
    tier = wording.estimate_of(frugal).confidence.tier
    surer = [cell for cell in fitting if wording.estimate_of(cell).confidence.tier < tier]
    if not surer:
        return ""
    first = min(surer, key=_energy_j)
    return (
        f" But its energy is of confidence {tier}, {wording.TIER_WORDS[tier]}: of those surer than "
        f"that, {wording.cell_name(first, cells)} needs least, {_least(first)} "
        f"(confidence {wording.estimate_of(first).confidence.tier})."
    )


def overview(cells: Sequence[Cell], console: Console) -> RenderableType:
    """Lay out ``cells`` as wide as ``console`` allows, with what a reader must know below."""
    table = fitting(console, partial(overview_table, cells), _LEAST_WANTED)
    has_parts = any(column.header == "energy into" for column in table.columns)
    return Group(table, *[component_legend()] * has_parts, *_notes(cells))


def overview_table(
    cells: Sequence[Cell], without: Collection[str] = (), figures: Sequence[str] = _FIGURES
) -> Table:
    """Lay out ``cells``, a line a phase; columns in which they do not differ are left out."""
    names = wording.varying(cells)
    units = {cell.estimate.unit for cell in cells if cell.estimate is not None}
    per = f"/{units.pop()}" if len(units) == 1 else ""
    shown = [head for head in figures if head not in without]
    table = quiet_table()
    for name in names:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for head in shown:
        justify: JustifyMethod = "left" if head in _LEFT else "right"
        below = {"time": per, "energy": per, "power": "W"}.get(head, "")
        table.add_column(f"{head}\n{below}".rstrip(), justify=justify, no_wrap=True)
    for cell in cells:
        for named, known in _rows(cell, names, per):
            table.add_row(*named, *(known.get(head, "") for head in shown))
    return table


def _rows(
    cell: Cell, names: Sequence[str], per: str
) -> Iterator[tuple[list[str], Mapping[str, RenderableType]]]:
    named = [wording.value_of(cell, name) for name in names]
    if cell.estimate is None:
        yield named, {"time": Text("none", style="red")}
        return
    for i, phase in enumerate(cell.estimate.phases):
        first = named if i == 0 else [""] * len(named)
        shown = [phase.phase if n == "phase" else v for n, v in zip(names, first, strict=True)]
        yield shown, _figures(cell.estimate, phase, per)


def _figures(estimate: Estimate, phase: PhaseEstimate, per: str) -> Mapping[str, RenderableType]:
    capped = phase.throttled_fraction > _CAPPED
    own = "" if per else f"/{estimate.unit}"
    memory = brief(phase.memory.peak_b, "B")
    bound, share = next(iter(phase.bound_shares.items()), ("", 0.0))
    return {
        "time": brief(phase.time_per_unit_s, f"s{own}"),
        "energy": brief(phase.energy_per_unit_j, f"J{own}"),
        "power": Text(f"{phase.power_w:.3g}" + "^" * capped, style="red" if capped else ""),
        "energy into": stacked_bar(phase.energy),
        "set by": f"{bound} {share:.0%}",
        "memory": memory if phase.memory.fits else Text(f"{memory}!", style="bold red"),
        "tier": estimate.confidence.tier,
        "mean power\nW": f"{phase.power_w:.3g}",
        **{f"{name}\nof energy": f"{part:.0%}" for name, part in phase.energy.shares.items()},
        "time set by": wording.bound_words(phase),
        "memory needed": memory if phase.memory.fits else f"{memory}, does not fit",
    }


def _notes(cells: Sequence[Cell]) -> Iterator[Text]:
    answered = [(cell, cell.estimate) for cell in cells if cell.estimate is not None]
    if any(p.throttled_fraction > _CAPPED for _, e in answered for p in e.phases):
        yield Text("^ the power cap holds the clock down")
    for cell, estimate in answered:
        worst = max((phase.memory for phase in estimate.phases), key=lambda memory: memory.peak_b)
        if not worst.fits:
            yield Text(f"! {_full_name(cell)} {wording.memory_words(worst)}", style="bold red")
    for cell in cells:
        if cell.estimate is None:
            yield Text(f"none: {_full_name(cell)}: {cell.problem}", style="red")
    unknown = [
        Text(wording.unknown_words(e), style="yellow") for _, e in answered if e.without_formula
    ]
    yield from dict.fromkeys(unknown[:1])
    trust = {
        cell.processor.product_name: wording.confidence_words(e.confidence) for cell, e in answered
    }
    for device, tier in trust.items():
        yield Text(f"{device}: {tier}", style="dim")


def _full_name(cell: Cell) -> str:
    return f"{cell.model} on {wording.device_words(cell)}, {cell.precision}, batch {cell.batch}"


def contrast_table(cells: Sequence[Cell]) -> Table | None:
    """Lay out energy, time and their product over the least of each, and who is on the front.

    ``None`` where there are not two answers about the same kind of work.
    """
    found = [cell for cell in cells if cell.estimate is not None]
    if len(found) < 2 or len({c.estimate.unit for c in found if c.estimate}) > 1:
        return None
    energies = [wording.last_phase(cell).energy_per_unit_j for cell in found]
    times = [wording.last_phase(cell).time_per_unit_s for cell in found]
    products = [energy * time for energy, time in zip(energies, times, strict=True)]
    several = max(len(cell.estimate.phases) for cell in found if cell.estimate) > 1
    what = f" of {wording.last_phase(found[0]).phase}" if several else ""
    pairs = [(*numbers(head), *words("")) for head in ("energy", "time", "EDP")]
    priced = any(cell.price is not None for cell in found)
    last = [*numbers(*["price"] * priced), *words("front")]
    table = quiet_table("", *chain(*pairs), *last, title=f"Times the least{what}")
    for i, cell in enumerate(found):
        row = [part for values in (energies, times, products) for part in _factor(values, i)]
        price = ["" if cell.price is None else f"{cell.price:g}"] * priced
        table.add_row(wording.cell_name(cell, found), *row, *price, "*" * bool(cell.on_front))
    return table


def _factor(values: Sequence[float], i: int) -> list[RenderableType]:
    factor = values[i] / min(values)
    return [f"{factor:.3g}", bar(values[i] / max(values), width=10)]


def with_front(cells: Sequence[Cell], prices: Mapping[str, float]) -> tuple[Cell, ...]:
    """Return ``cells`` with their prices, and whether each is on the front of its model.

    Time and energy are those of a unit of the last phase's work. What does not fit its device, or
    is projected without silicon, is not compared, nor cells without an answer. ``prices`` are of
    one device by its key, all or none; a power mode costs what the device does. Raises ConfigError
    if a price is missing, or is not positive and finite.
    """
    priced = []
    for cell in cells:
        num = cell.estimate.num_devices if cell.estimate else 1
        priced.append(replace(cell, price=price_of(cell.processor.key, prices, num)))
    marks: dict[int, bool] = {}
    for model in dict.fromkeys(cell.model for cell in priced):
        places = [i for i, cell in enumerate(priced) if cell.model == model and _compares(cell)]
        if len(places) > 1:
            costs = np.array([costs_of(priced[place]) for place in places])
            marks |= dict(zip(places, map(bool, non_dominated(costs, RESOLUTION)), strict=True))
    return tuple(replace(cell, on_front=marks.get(i)) for i, cell in enumerate(priced))


def price_of(device: str, prices: Mapping[str, float], num: int = 1) -> float | None:
    """Return the price of ``num`` devices by their key; ``None`` where no device has one.

    Raises ConfigError if its own is missing, or is not positive and finite.
    """
    if not prices:
        return None
    key = device.partition(":")[0]
    price = prices.get(device, prices.get(key))
    if price is None or not price > 0 or not isfinite(price):
        raise ConfigError(
            f"--price must give each device that is compared a positive price, got {price} for "
            f"{key}: add --price {key}=PRICE."
        )
    return num * price


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
    sentences, models = list[str](), dict.fromkeys(cell.model for cell in cells)
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
