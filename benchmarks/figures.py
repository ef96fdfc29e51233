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


def print_figures(figures: Sequence[Figure]) -> None:
    """Print one row per figure."""
    table = Table(title="Promised figures", title_justify="left")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("promised", justify="right")
    table.add_column("kept")
    table.add_column("on what", overflow="fold")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.measured:.3g} {figure.unit}",
            f"<= {figure.promised:g} {figure.unit}",
            "[green]yes[/]" if figure.kept else "[red]no[/]",
            figure.how,
        )
    Console().print(table)
