"""How several devices relate to the best of them, as factors."""

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table

from joulelab.analysis.estimates.answer import (
    cell_name,
    energy_per_work_j,
    last_phase,
    time_per_work_s,
)
from joulelab.analysis.estimates.bars import bar
from joulelab.estimator.cell import Cell


def contrast_table(cells: Sequence[Cell]) -> Table | None:
    """Lay out energy, time and their product over the least of each.

    ``None`` where there are not two answers about the same kind of work.
    """
    found = [cell for cell in cells if cell.estimate is not None]
    if len(found) < 2 or len({c.estimate.unit for c in found if c.estimate}) > 1:
        return None
    energies = [energy_per_work_j(cell) for cell in found]
    times = [time_per_work_s(cell) for cell in found]
    products = [energy * time for energy, time in zip(energies, times, strict=True)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    several = max(len(cell.estimate.phases) for cell in found if cell.estimate) > 1
    what = f" of {last_phase(found[0]).phase}" if several else ""
    table.title, table.title_justify = f"Times the least{what}", "left"
    table.add_column("")
    for head in ("energy", "time", "EDP"):
        table.add_column(head, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    for i, cell in enumerate(found):
        row = [part for values in (energies, times, products) for part in _factor(values, i)]
        table.add_row(cell_name(cell, found), *row)
    return table


def _factor(values: Sequence[float], i: int) -> list[RenderableType]:
    factor = values[i] / min(values)
    return [f"{factor:.3g}", bar(values[i] / max(values), width=10)]
