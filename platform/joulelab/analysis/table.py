"""Results as lines of text, laid out for a terminal or a page, and as CSV in SI units."""

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import PaddingDimensions
from rich.table import Column, Table

from joulelab.tracking.durable import whole_text

Columns = Mapping[str, str]
"""Names of columns, and where in a row each is found: ``{"power_w": "figures.power_w"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is compared, in words; the legend says what its mark means."""

    mark: str
    cells: tuple[str, ...]
    is_best: bool
    in_set: bool
    has_figures: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Lines under common heads, which are a name and a unit each."""

    heads: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]


def lay_out(found: Sheet, caption: Sequence[str], without: Collection[str] = ()) -> Table:
    """Lay out lines under their heads but those ``without``, with ``caption`` below.

    Lines of the caption that begin with a head and a colon go with it.
    """
    kept = [i for i, (name, _) in enumerate(found.heads) if name not in without]
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        caption=escape("\n".join(c for c in caption if c.partition(":")[0] not in without)),
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    for name, unit in (found.heads[i] for i in kept):
        table.add_column(f"{name}\n{unit}", justify="right", overflow="fold")
    for line in found.lines:
        table.add_row(line.mark, *(line.cells[i] for i in kept), style=_style(line))
    return table


def fitting(
    console: Console, lay: Callable[[Collection[str]], Table], less_wanted: Sequence[str]
) -> Table:
    """Return the first table that is no wider than ``console``, else the narrowest.

    ``lay`` makes it without the columns of some heads; those of ``less_wanted`` go first to last.
    """
    boundless = console.options.update(max_width=1000)
    for num in range(len(less_wanted) + 1):
        table = lay(less_wanted[:num])
        if Measurement.get(console, boundless, table).maximum <= console.width:
            break
    return table


def grid_table(title: str, *columns: Column, padding: PaddingDimensions) -> Table:
    """Return a table of cells alone, below a title if there is one."""
    table = Table.grid(*columns, padding=padding)
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    return table


def count(num_valid: int, num_invalid: int) -> str:
    """Write how many measurements count, minus how many do not."""
    return f"{num_valid}-{num_invalid}" if num_invalid else f"{num_valid}"


def cells_at(row: object, columns: Columns) -> list[object]:
    """Return what ``row`` holds for each column: a number for yes and no, ``None`` for nothing."""
    return [_cell(row, path) for path in columns.values()]


def interval_columns(name: str, path: str) -> Columns:
    """Return the columns of an interval: its value and both ends."""
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {f"{name}{end}": f"{path}.{part}" for end, part in ends.items()}


def write_rows(path: Path, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write ``rows`` below their heads to ``path`` as CSV; ``None`` is empty."""
    with whole_text(path) as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)


def _cell(found: object, path: str) -> object:
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return int(found) if isinstance(found, bool) else found


def _style(line: Line) -> str:
    if not line.has_figures:
        return "dim"
    if line.is_best:
        return "bold green"
    return "green" if line.in_set else ""


def words(*heads: str) -> list[Column]:
    """Return columns of words that never break."""
    return [Column(head, no_wrap=True) for head in heads]


def numbers(*heads: str) -> list[Column]:
    """Return columns of numbers, aligned at their ends."""
    return [Column(head, justify="right", no_wrap=True) for head in heads]


def quiet_table(
    *columns: Column | str, title: str = "", caption: str = "", pad_edge: bool = False
) -> Table:
    """Return a table without rows; a column given as text may break its lines."""
    return Table(
        *columns,
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=pad_edge,
    )
