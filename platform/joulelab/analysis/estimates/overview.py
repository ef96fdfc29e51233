"""Estimates side by side, a line each, for a terminal of 100 columns."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.bars import component_legend, stacked_bar
from joulelab.analysis.estimates.wording import (
    confidence_words,
    device_key,
    device_words,
    memory_words,
    phase_bound_shares,
    unknown_words,
)
from joulelab.analysis.quantities import quantity
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import Estimate, PhaseEstimate

_NUMBERS = ("batch",)
_FIGURES = ("time", "energy", "power", "energy into", "set by", "memory", "tier")
_LEFT = ("energy into", "set by")
_CAPPED = 0.005  # shares of time below are not worth a mark
_LEAST_WANTED = ("tier", "energy into", "memory", "set by")


def overview(cells: Sequence[Cell], console: Console) -> RenderableType:
    """Lay out ``cells`` as wide as ``console`` allows, with what a reader must know below."""
    boundless = console.options.update(max_width=1000)
    for num in range(len(_LEAST_WANTED) + 1):
        table = overview_table(cells, without=_LEAST_WANTED[:num])
        if Measurement.get(console, boundless, table).maximum <= console.width:
            break
    legend = [] if "energy into" in _LEAST_WANTED[:num] else [component_legend()]
    return Group(table, *legend, *_notes(cells))


def overview_table(cells: Sequence[Cell], *, without: Collection[str] = ()) -> Table:
    """Lay out ``cells``; columns in which they do not differ are left out.

    Args:
        cells: What to show, a line for each phase of each.
        without: Columns to leave out.
    """
    names = varying(cells)
    units = {cell.estimate.unit for cell in cells if cell.estimate is not None}
    per = f"/{units.pop()}" if len(units) == 1 else ""
    shown = [head for head in _FIGURES if head not in without]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
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


def varying(cells: Sequence[Cell]) -> list[str]:
    """Return what tells ``cells`` apart; the device does always."""
    known = ("model", "device", "precision", "batch")
    names = [n for n in known if n == "device" or len({value_of(cell, n) for cell in cells}) > 1]
    several = any(cell.estimate and len(cell.estimate.phases) > 1 for cell in cells)
    return [*names, "phase"] if several else names


def value_of(cell: Cell, name: str) -> str:
    """Return what a cell has in the column ``name`` of :func:`varying`."""
    return device_key(cell) if name == "device" else str(getattr(cell, name, ""))


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
    bound, share = next(iter(phase_bound_shares(phase).items()), ("", 0.0))
    return {
        "time": quantity(phase.latency_s / phase.work, f"s{own}", digits=3),
        "energy": quantity(phase.energy.total_j / phase.work, f"J{own}", digits=3),
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
    for device, said in trust.items():
        yield Text(f"{device}: {said}", style="dim")


def _full_name(cell: Cell) -> str:
    return f"{cell.model} on {device_words(cell)}, {cell.precision}, batch {cell.batch}"
