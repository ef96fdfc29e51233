"""A promised figure, what was measured, and the table that holds them side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure that the project promises.

    Attributes:
        name: What is measured.
        measured: The value found, in ``unit``.
        promised: The largest value that keeps the promise, in ``unit``.
        unit: Unit of both.
        how: On what it was measured.
    """

    name: str
    measured: float
    promised: float
    unit: str
    how: str

    @property
    def kept(self) -> bool:
        """Whether the promise is kept."""
        return self.measured <= self.promised


def share_figure(name: str, share: float, promised: float, how: str) -> Figure:
    """Return the figure of a share, 0 to 1, told and promised in percent."""
    return Figure(name=name, measured=100 * share, promised=promised, unit="%", how=how)


def print_figures(figures: Sequence[Figure]) -> None:
    """Print one row per figure."""
    table = Table(title="Promised figures", title_justify="left", show_lines=True)
    table.add_column("figure", overflow="fold")
    for name in ("measured", "promised", "kept"):
        table.add_column(name, justify="right", no_wrap=True)
    for figure in figures:
        table.add_row(
            f"{figure.name}\n[dim]{figure.how}[/]",
            f"{figure.measured:.3g} {figure.unit}",
            f"<= {figure.promised:g} {figure.unit}",
            "[green]yes[/]" if figure.kept else "[red]no[/]",
        )
    Console().print(table)
