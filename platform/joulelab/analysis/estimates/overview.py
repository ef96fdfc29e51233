"""Estimates side by side, a line each, for a terminal of 100 columns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.detail import bar, component_legend, stacked_bar
from joulelab.analysis.estimates.wording import (
    cell_name,
    confidence_words,
    device_words,
    differing,
    last_phase,
    memory_words,
    unknown_words,
    value_of,
    varying,
)
from joulelab.analysis.quantities import quantity
from joulelab.analysis.table import fitting, numbers, quiet_table, words
from joulelab.estimator.clock_sweep import Curve
from joulelab.estimator.estimate import Estimate, PhaseEstimate
from joulelab.estimator.question import Cell
from joulelab.objectives import OBJECTIVES

_NUMBERS = ("batch",)
_FIGURES = ("time", "energy", "power", "energy into", "set by", "memory", "tier")
_LEFT = ("energy into", "set by")
_CAPPED = 0.005  # shares of time below are not worth a mark
_LEAST_WANTED = ("tier", "energy into", "memory", "set by")


def overview(cells: Sequence[Cell], console: Console) -> RenderableType:
    """Lay out ``cells`` as wide as ``console`` allows, with what a reader must know below."""
    table = fitting(console, partial(overview_table, cells), _LEAST_WANTED)
    has_parts = any(column.header == "energy into" for column in table.columns)
    return Group(table, *[component_legend()] * has_parts, *_notes(cells))


def overview_table(cells: Sequence[Cell], without: Collection[str] = ()) -> Table:
    """Lay out ``cells``, a line a phase; columns in which they do not differ are left out."""
    names = varying(cells)
    units = {cell.estimate.unit for cell in cells if cell.estimate is not None}
    per = f"/{units.pop()}" if len(units) == 1 else ""
    shown = [head for head in _FIGURES if head not in without]
    table = quiet_table()
    for name in names:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for head in shown:
        justify: JustifyMethod = "left" if head in _LEFT else "right"
        below = {"time": per, "energy": per, "power": "W"}.get(head, "")
        table.add_column(f"{head}\n{below}".rstrip(), justify=justify, no_wrap=True)
    for cell in cells:
        for named, figures in _rows(cell, names, per):
            table.add_row(*named, *(figures.get(head, "") for head in shown))
    return table


def _rows(
    cell: Cell, names: Sequence[str], per: str
) -> Iterator[tuple[list[str], Mapping[str, RenderableType]]]:
    named = [value_of(cell, name) for name in names]
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
    memory = quantity(phase.memory.peak_b, "B", digits=3)
    bound, share = next(iter(phase.bound_shares.items()), ("", 0.0))
    return {
        "time": quantity(phase.time_per_unit_s, f"s{own}", digits=3),
        "energy": quantity(phase.energy_per_unit_j, f"J{own}", digits=3),
        "power": Text(f"{phase.power_w:.3g}" + "^" * capped, style="red" if capped else ""),
        "energy into": stacked_bar(phase.energy),
        "set by": f"{bound} {share:.0%}",
        "memory": memory if phase.memory.fits else Text(f"{memory}!", style="bold red"),
        "tier": estimate.confidence.tier,
    }


def _notes(cells: Sequence[Cell]) -> Iterator[Text]:
    answered = [(cell, cell.estimate) for cell in cells if cell.estimate is not None]
    if any(p.throttled_fraction > _CAPPED for _, e in answered for p in e.phases):
        yield Text("^ the power cap holds the clock down")
    for cell, estimate in answered:
        worst = max((phase.memory for phase in estimate.phases), key=lambda memory: memory.peak_b)
        if not worst.fits:
            yield Text(f"! {_full_name(cell)} {memory_words(worst)}", style="bold red")
    for cell in cells:
        if cell.estimate is None:
            yield Text(f"none: {_full_name(cell)}: {cell.problem}", style="red")
    unknown = [Text(unknown_words(e), style="yellow") for _, e in answered if e.without_formula]
    yield from dict.fromkeys(unknown[:1])
    trust = {cell.processor.product_name: confidence_words(e.confidence) for cell, e in answered}
    for device, tier in trust.items():
        yield Text(f"{device}: {tier}", style="dim")


def _full_name(cell: Cell) -> str:
    return f"{cell.model} on {device_words(cell)}, {cell.precision}, batch {cell.batch}"


def contrast_table(cells: Sequence[Cell]) -> Table | None:
    """Lay out energy, time and their product over the least of each.

    ``None`` where there are not two answers about the same kind of work.
    """
    found = [cell for cell in cells if cell.estimate is not None]
    if len(found) < 2 or len({c.estimate.unit for c in found if c.estimate}) > 1:
        return None
    energies = [last_phase(cell).energy_per_unit_j for cell in found]
    times = [last_phase(cell).time_per_unit_s for cell in found]
    products = [energy * time for energy, time in zip(energies, times, strict=True)]
    several = max(len(cell.estimate.phases) for cell in found if cell.estimate) > 1
    what = f" of {last_phase(found[0]).phase}" if several else ""
    pairs = [(*numbers(head), *words("")) for head in ("energy", "time", "EDP")]
    table = quiet_table("", *chain(*pairs), title=f"Times the least{what}")
    for i, cell in enumerate(found):
        row = [part for values in (energies, times, products) for part in _factor(values, i)]
        table.add_row(cell_name(cell, found), *row)
    return table


def _factor(values: Sequence[float], i: int) -> list[RenderableType]:
    factor = values[i] / min(values)
    return [f"{factor:.3g}", bar(values[i] / max(values), width=10)]


_STEPS = 4


def sweep_sentence(curves: Sequence[Curve], objective: str) -> str:
    """Say which combination has the lowest objective per unit of work, and what it saves."""
    best = best_curve(curves, objective)
    place = best.best(objective)
    aim = OBJECTIVES[objective].label
    phase = f" of {best.phase}" if len({each.phase for each in curves}) > 1 else ""
    sentence = (
        f"Lowest predicted {aim} per {best.unit}{phase}: {best.precision}, "
        f"batch {best.batch}, {best.clocks_mhz[place]} MHz on {best.processor.product_name}, "
        f"{quantity(best.energy_j[place] / best.work, f'J/{best.unit}', digits=3)} in "
        f"{quantity(best.latency_s[place] / best.work, f's/{best.unit}', digits=3)}"
    )
    return f"{sentence}; {_change(best, place)}{_flat(best, objective)}."


def best_curve(curves: Sequence[Curve], objective: str) -> Curve:
    """Return the curve with the lowest objective per unit of work, of the last phase."""
    last = [curve for curve in curves if curve.phase == curves[-1].phase]
    return min(last, key=lambda curve: cost_per_work(curve, curve.best(objective), objective))


def cost_per_work(curve: Curve, place: int, objective: str) -> float:
    """Return the objective at one clock, of energy and time per unit of work."""
    degree = 1 if objective in ("energy", "time") else 2 if objective == "edp" else 3
    return curve.costs(objective)[place] / curve.work**degree


def optima_table(curves: Sequence[Curve], objective: str) -> Table:
    """Lay out the best clock of each precision, batch size and phase."""
    aim = OBJECTIVES[objective].label
    several = len({curve.phase for curve in curves}) > 1
    named = [*differing(curves, always="batch"), *["phase"] * several]
    heads = ("best\nMHz", "within 1 %\nMHz", "energy", "time", "saved", "longer", "power\nW")
    table = quiet_table(*words(*named), *numbers(*heads), title=f"Clock of lowest {aim}")
    winner = best_curve(curves, objective)
    for curve in curves:
        cells = [value_of(curve, name) for name in named]
        style = "bold green" if curve is winner else ""
        table.add_row(*cells, *_optimum(curve, objective), style=style)
    return table


def around_table(curve: Curve, objective: str) -> Table:
    """Lay out the clocks around the best of one curve, with the default and both ends."""
    aim = OBJECTIVES[objective].label
    heads = ("clock\nMHz", "power\nW", "energy", "time", f"{aim}\nover best", "saved", "longer")
    table = quiet_table(
        *words(""),
        *numbers(*heads),
        title=f"Around it: {curve.precision}, batch {curve.batch}, {curve.phase}",
        caption=f"* lowest {aim}   = within 1 % of it, less than an estimate resolves",
    )
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    for place in shown(curve, objective):
        mark = "*" if place == best else "=" if first <= place <= last else " "
        style = "bold green" if place == best else "green" if mark == "=" else ""
        table.add_row(mark, *_point(curve, place, objective), style=style)
    return table


def shown(curve: Curve, objective: str) -> list[int]:
    """Return the places that tell the story: ends, default, and even steps around the best."""
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    end = len(curve.clocks_mhz) - 1
    reach = max(last - first, _STEPS)
    steps = [best + round(reach * i / _STEPS) for i in range(-_STEPS, _STEPS + 1)]
    return sorted({0, end, curve.default, first, last, *(s for s in steps if 0 <= s <= end)})


def _optimum(curve: Curve, objective: str) -> list[str]:
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    clocks = curve.clocks_mhz
    return [
        str(clocks[best]),
        f"{clocks[first]} to {clocks[last]}",
        *_costs(curve, best),
        *_shares(curve, best),
        _power(curve, best),
    ]


def _point(curve: Curve, place: int, objective: str) -> list[str]:
    costs = curve.costs(objective)
    clock = f"{curve.clocks_mhz[place]}"
    return [
        f"default {clock}" if place == curve.default else clock,
        _power(curve, place),
        *_costs(curve, place),
        f"{costs[place] / min(costs):.3f}",
        *_shares(curve, place),
    ]


def _costs(curve: Curve, place: int) -> list[str]:
    return [
        quantity(curve.energy_j[place] / curve.work, f"J/{curve.unit}", digits=3),
        quantity(curve.latency_s[place] / curve.work, f"s/{curve.unit}", digits=3),
    ]


def _shares(curve: Curve, place: int) -> list[str]:
    """Return the energy saved and the time added against the default clock."""
    saved, longer = changes(curve, place)
    return [f"{saved:+.1%}", f"{longer:+.1%}"]


def changes(curve: Curve, place: int) -> tuple[float, float]:
    """Return energy saved and time added against the default clock, as shares."""
    saved = 1 - curve.energy_j[place] / curve.energy_j[curve.default]
    return saved, curve.latency_s[place] / curve.latency_s[curve.default] - 1


def _power(curve: Curve, place: int) -> str:
    return f"{curve.energy_j[place] / curve.latency_s[place]:.0f}"


def _change(curve: Curve, place: int) -> str:
    if place == curve.default:
        return "the default clock is best"
    saved, longer = changes(curve, place)
    return f"{saved:.1%} less energy and {longer:+.1%} time against the default clock"


def _flat(curve: Curve, objective: str) -> str:
    first, last = curve.near_best(objective)
    if first == last:
        return ""
    return f"; from {curve.clocks_mhz[first]} to {curve.clocks_mhz[last]} MHz it is within 1 %"
