"""Results as lines of text, laid out for a terminal or a page, and as CSV in SI units."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.padding import PaddingDimensions
from rich.table import Column, Table
from rich.text import Text

from joulelab.analysis.quantities import PLUS_MINUS
from joulelab.errors import ConfigError
from joulelab.tracking.durable import check_file, write_whole

if TYPE_CHECKING:  # pandas takes half a second
    import pandas as pd

Columns = Mapping[str, str]
"""Names of columns, and where in an entry each is found: ``{"power_w": "row.figures.power_w"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Results as numbers in SI units, row by row; what is not known is ``None``."""

    columns: tuple[str, ...]
    rows: list[list[object]]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, object]]) -> "Frame":
        """List ``rows``, at least one, whose values have the same names in the same order."""
        return cls(columns=tuple(rows[0]), rows=[list(row.values()) for row in rows])

    def to_pandas(self) -> "pd.DataFrame":
        """Return it as pandas has it."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=self.columns)

    def records(self) -> list[dict[str, object]]:
        """Return each row by the names of its columns, as JSON has it."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def write(self, path: Path) -> None:
        """Write it to ``path`` as CSV; ``None`` is empty."""
        text = StringIO(newline="")
        csv.writer(text).writerows([self.columns, *self.rows])
        write_whole(path, text.getvalue())


def check_target(path: Path | None, *suffixes: str, option: str = "--out") -> None:
    """Refuse a file that could not be written, before what it is to hold is worked out.

    Raises ConfigError if it ends in none of ``suffixes``, or no such file can be made.
    """
    if path is None:
        return
    if path.suffix not in suffixes:
        known = ", ".join(suffixes[:-1]) + " or " * (len(suffixes) > 1) + suffixes[-1]
        raise ConfigError(f"{option} must end in {known}, got {str(path)!r}.")
    check_file(path)


def frame(columns: Columns, entries: Iterable[object], *, digits: int | None = None) -> Frame:
    """List what every entry holds for each column, floats to so many ``digits``.

    Steps of a path are names in a mapping, places in a tuple, or attributes. Yes and no become
    numbers, and several values words with spaces between.
    """

    def cell(entry: object, path: str) -> object:
        value = _plain(_at(entry, path.split(".")))
        return f"{value:.{digits}g}" if digits and isinstance(value, float) else value

    rows = [[cell(entry, path) for path in columns.values()] for entry in entries]
    return Frame(columns=tuple(columns), rows=rows)


def numbers_at(entry: object, columns: Columns) -> list[tuple[str, float]]:
    """Return the numbers of one entry that are known, by the names of their columns."""
    found = ((name, _at(entry, path.split("."))) for name, path in columns.items())
    return [(name, float(value)) for name, value in found if isinstance(value, int | float)]


def interval_columns(name: str, path: str) -> Columns:
    """Return the columns of an interval: its value and both ends."""
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {f"{name}{end}": f"{path}.{part}" for end, part in ends.items()}


def _at(found: Any, path: Sequence[str]) -> object:
    for name in path:
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, tuple):
            found = found[int(name)]
        elif found is not None:
            found = getattr(found, name)
    return found


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, tuple):
        return " ".join("=".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in value)
    return value


BEST, EQUAL, NONE = "bold green", "green", "dim"
"""Styles of the best line, of those that may be as good, and of those without figures."""


def plain_cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the heads and, row by row, the cells of ``table`` as plain text."""
    heads = [plain(column.header) for column in table.columns]
    columns = [[plain(cell) for cell in column.cells] for column in table.columns]
    return heads, [list(row) for row in zip(*columns, strict=True)]


def _one_line_cells(table: Table) -> tuple[list[str], list[list[str]]]:
    heads, rows = plain_cells(table)
    heads, *rows = [[" ".join(cell.split()) for cell in line] for line in (heads, *rows)]
    return heads, rows


def markdown(table: Table) -> str:
    """Write ``table`` in Markdown, below its title if it has one."""
    heads, rows = _one_line_cells(table)
    title = f"\n## {plain(table.title)}\n" if table.title else ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join([title, *(f"| {' | '.join(line)} |" for line in lines), ""])


def latex(table: Table) -> str:
    """Write ``table`` as a tabular of LaTeX's package booktabs, its caption as comments above."""
    import pandas as pd

    heads, rows = _one_line_cells(table)
    aligned = "".join("r" if each.justify == "right" else "l" for each in table.columns)
    tabular = pd.DataFrame(rows, columns=heads).to_latex(
        index=False, escape=True, column_format=aligned
    )
    # In text these are other signs, and a star below the end of a line belongs to it.
    signs = re.sub(r"[<>*]|(?<!\w)-(?=\d)", r"$\g<0>$", tabular)
    notes = Text.from_markup(str(table.caption or "")).plain.splitlines()
    return "".join([*(f"% {note}\n" for note in notes), signs])


def plain(text: object) -> str:
    """Return what stands in a table as plain text."""
    return text.plain if isinstance(text, Text) else str(text or "")


def plus_minus(value: float, u: float, decimals: int) -> str:
    """Write a number and its uncertainty, unless that has no end, to so many decimals."""
    number = f"{value:.{decimals}f}"
    return f"{number} {PLUS_MINUS} {u:.{decimals}f}" if isfinite(u) else number


def fitting(
    console: Console, lay: Callable[[Collection[str]], Table], less_wanted: Sequence[str]
) -> Table:
    """Return the first table that is no wider than ``console``, else the narrowest.

    ``lay`` makes it without the columns of some heads; those of ``less_wanted`` go first to last.
    """
    for num in range(len(less_wanted) + 1):
        table = lay(less_wanted[:num])
        if width_of(table, console) <= console.width:
            break
    return table


def width_of(table: Table, console: Console) -> int:
    """Return how many characters a line of ``table`` takes where there is no bound."""
    return Measurement.get(console, console.options.update(max_width=1000), table).maximum


def grid_table(title: str, *columns: Column, padding: PaddingDimensions) -> Table:
    """Return a table of cells alone, below a title if there is one."""
    table = Table.grid(*columns, padding=padding)
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    return table


def words(*heads: str) -> list[Column]:
    """Return columns of words that never break."""
    return [Column(head, no_wrap=True) for head in heads]


def numbers(*heads: str) -> list[Column]:
    """Return columns of numbers, aligned at their ends."""
    return [Column(head, justify="right", no_wrap=True) for head in heads]


def quiet_table(
    *columns: Column | str,
    title: str = "",
    caption: str = "",
    pad_edge: bool = False,
    padding: PaddingDimensions = (0, 1, 0, 0),
) -> Table:
    """Return a table without rows; a column given as text may break its lines."""
    return Table(
        *columns,
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=padding,
        pad_edge=pad_edge,
    )
