"""What a sweep found as a table for the terminal."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from joulelab.analysis.cells import Line, Sheet, selection, sheet
from joulelab.analysis.quantities import PLUS_MINUS
from joulelab.analysis.sweep import PhaseResult
from joulelab.analysis.wording import OBJECTIVE_NAMES


def phase_table(
    phase: PhaseResult,
    *,
    max_rows: int | None = 20,
    more: str = "",
    without: Collection[str] = (),
) -> Table:
    """Lay out a phase for a terminal of 100 columns.

    Args:
        phase: What was found.
        max_rows: Rows to show at most, see :func:`selection`; ``None`` shows all.
        more: How to see all rows, said where some are left out.
        without: Heads of columns to leave out.
    """
    shown = selection(phase, max_rows)
    caption = legend(phase, num_shown=len(shown), more=more)
    return lay_out(sheet(phase, shown), caption, without=without)


def lay_out(found: Sheet, caption: Sequence[str], *, without: Collection[str] = ()) -> Table:
    """Lay out lines under their heads, with ``caption`` below.

    Args:
        found: The lines.
        caption: What the marks and columns mean.
        without: Heads of columns to leave out.
    """
    kept = [i for i, (name, _) in enumerate(found.heads) if name not in without]
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        caption=escape("\n".join(caption)),
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    for name, unit in (found.heads[i] for i in kept):
        table.add_column(f"{name}\n{unit}", justify="right", overflow="fold")
    for line in found.lines:
        table.add_row(line.mark, *(line.cells[i] for i in kept), style=_style(line))
    return table


def fitting_table(
    phase: PhaseResult, console: Console, *, max_rows: int | None = 20, more: str = ""
) -> Table:
    """Lay out a phase as wide as ``console`` allows: less wanted columns go, never digits."""
    return fitting(
        console,
        lambda without: phase_table(phase, max_rows=max_rows, more=more, without=without),
        ("ED2P", "EDP", "power"),
    )


def fitting(
    console: Console, lay: Callable[[Collection[str]], Table], less_wanted: Sequence[str]
) -> Table:
    """Return the first table that is no wider than ``console``, else the narrowest.

    Args:
        console: Where it is to be printed.
        lay: Makes the table without the columns of these heads.
        less_wanted: Heads of columns that may go, the first one first.
    """
    boundless = console.options.update(max_width=1000)
    for num in range(len(less_wanted) + 1):
        table = lay(less_wanted[:num])
        if Measurement.get(console, boundless, table).maximum <= console.width:
            break
    return table


def legend(phase: PhaseResult, *, num_shown: int, more: str = "") -> list[str]:
    """Say what the marks and columns mean, and what is not shown."""
    aim = OBJECTIVE_NAMES[phase.objective]
    lines = [
        f"* lowest {aim}   = cannot be told apart from it ({phase.level:.0%})   "
        "^ held down by the power cap",
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; "
        f"{phase.level:.0%} interval of what is saved and added",
    ]
    if any(row.num_invalid for row in phase.rows):
        lines.append("n: valid measurements, minus those that broke the validity contract")
    lost = Counter(row.reasons[:1] for row in phase.rows if row.figures is None)
    if lost:
        named = ", ".join(f"{num} {' '.join(why) or 'not compared'}" for why, num in lost.items())
        lines.append(f"{lost.total()} points have no valid measurement: {named}")
    if num_shown < len(phase.rows):
        lines.append(f"{num_shown} of {len(phase.rows)} points are shown{more and f'; {more}'}")
    return lines


def _style(line: Line) -> str:
    if not line.has_figures:
        return "dim"
    if line.is_best:
        return "bold green"
    return "green" if line.in_set else ""
