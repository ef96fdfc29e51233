"""Tables of a report: rows that a study compares, laid out in one way, and what it ends with."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Generic, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from joulelab.analysis.compared import Counts
from joulelab.analysis.quantities import common_scale
from joulelab.analysis.table import BEST, EQUAL, NONE, fitting, plus_minus, quiet_table

RowT = TypeVar("RowT", bound=Counts)
FoundT = TypeVar("FoundT")
_STYLES = {"*": BEST, "=": EQUAL, "<": EQUAL}


@dataclass(frozen=True, slots=True)
class CostColumn(Generic[FoundT]):
    """A column of what rows with figures cost: its head, and what is written for a row."""

    name: str
    unit: str
    cell: Callable[[FoundT], str]


def scaled(
    name: str,
    unit: str,
    values: Callable[[FoundT], tuple[float, float] | None],
    found: Sequence[tuple[float, float]],
    *,
    has_u: bool = True,
) -> CostColumn[FoundT]:
    """Write a quantity with the prefix and the decimals that suit all that is ``found``.

    ``values`` gives it with its uncertainty, which is written unless it ``has_u`` not.
    """
    uncertainties = [u for _, u in found if has_u]
    factor, prefix, decimals = common_scale([value for value, _ in found], uncertainties)

    def cell(each: FoundT) -> str:
        if (known := values(each)) is None:
            return ""
        value, u = known
        return plus_minus(value * factor, u * factor if has_u else inf, decimals)

    return CostColumn(name, f"{prefix}{unit}", cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(Generic[FoundT]):
    """A row in words.

    ``mark`` begins with ``*`` for the best, and with ``=`` or ``<`` for what may be as good. Of
    ``found`` its quantities are written; without figures ``why`` stands in place of its energy.
    """

    mark: str
    named: Sequence[str]
    found: FoundT | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[RowT, FoundT]):
    """Rows, and how they are put under heads, which are a name and a unit each."""

    rows: Sequence[RowT]
    noun: str  # what the rows are, in the plural
    heads: Sequence[tuple[str, str]]  # those of what names a row
    # Returns the other columns, with SI prefixes that suit the rows that are shown.
    quantities: Callable[[Sequence[RowT]], Sequence[CostColumn[FoundT]]]
    line: Callable[[RowT], Line[FoundT]]  # puts a row into words
    # Returns the rows that tell the story in at most so many; None takes all.
    choose: Callable[[int | None], Sequence[RowT]]
    # Says what marks and columns mean. A line that begins with a head and a colon goes with its
    # column.
    legend: Sequence[str]
    minor: tuple[str, ...]  # heads of columns that go where there is no room, the first one first

    def fitting(self, console: Console, *, max_rows: int | None = 20, more: str = "") -> Table:
        """Lay out at most so many rows as wide as ``console`` allows: columns go, never digits.

        ``more`` says how to see all.
        """
        shown = self.choose(max_rows)
        return fitting(console, partial(self.table, shown, self.caption(shown, more)), self.minor)

    def caption(self, shown: Sequence[RowT], more: str = "") -> list[str]:
        """Return the legend, and what is not shown."""
        if len(shown) == len(self.rows):
            return list(self.legend)
        part = f"{len(shown)} of {len(self.rows)} {self.noun} are shown{more and f'; {more}'}"
        return [*self.legend, part]

    def table(
        self, rows: Sequence[RowT], caption: Sequence[str] = (), without: Collection[str] = ()
    ) -> Table:
        """Lay out ``rows``, how often each was measured last, but the columns of some heads."""
        quantities = self.quantities(rows)
        heads = [*self.heads, *((each.name, each.unit) for each in quantities), ("n", "")]
        kept = [i for i, (name, _) in enumerate(heads) if name not in without]
        below = "\n".join(each for each in caption if each.partition(":")[0] not in without)
        table = quiet_table(Column("", no_wrap=True), caption=escape(below), padding=(0, 0))
        for name, unit in (heads[i] for i in kept):
            table.add_column(f"{name}\n{unit}", justify="right", overflow="fold")
        for row in rows:
            line, minus = self.line(row), f"-{row.num_invalid}" if row.num_invalid else ""
            cells = [*line.named, *_cells(line, quantities), f"{row.num_valid}{minus}"]
            style = NONE if line.found is None else _STYLES.get(line.mark[0], "")
            table.add_row(line.mark, *(cells[i] for i in kept), style=style)
        return table


def _cells(line: Line[FoundT], quantities: Sequence[CostColumn[FoundT]]) -> list[str]:
    if line.found is None:
        return [line.why * (each.name == "energy") for each in quantities]
    return [each.cell(line.found) for each in quantities]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What a report ends with: a table over several sections, and what must be read with it."""

    name: str
    answer: str  # what it shows, in words
    lay: Callable[[Collection[str]], Table]  # lays out the table without the columns of some heads
    notes: Sequence[str]  # what must be read with it
    # Heads of columns that go where there is no room, the first one first
    minor: Sequence[str] = ()
