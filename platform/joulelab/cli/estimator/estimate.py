"""``joulelab estimate``: what a model costs on a device, before anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from joulelab.analysis.estimates.answer import answers, cell_name
from joulelab.analysis.estimates.detail import detail
from joulelab.analysis.estimates.event_tree import event_table
from joulelab.analysis.estimates.export import to_json
from joulelab.analysis.estimates.files import check_target, write_cells
from joulelab.analysis.estimates.groups import group_table
from joulelab.analysis.estimates.overview import overview
from joulelab.cli.estimator.options import Asking
from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.progress import progress
from joulelab.core.point import OperatingPoint
from joulelab.estimator.api import matrix, with_opportunities
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import Mode

MAX_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Asking):
    """Predict latency, energy and memory of models on devices; nothing is run on them.

    One combination is shown in full, several side by side. A model from a file of yours is
    built by executing that file.

    Attributes:
        mode: How kernels are launched: one by one from Python, as a captured graph, or fused by
            a compiler and captured.
        clock_mhz: Core clock; by default the device's own.
        power_limit_w: Power limit of each device; by default its own.
        per_group: Show the kernels that cost most, and write them all to a CSV file.
        events: Break energies down to architectural events.
        quick: Do not look for what would save energy, which needs some more traces.
        strict: Refuse operators without a cost formula, and whatever a device cannot do.
        out: Write a file as well: .json, .csv or .html.
    """

    mode: Mode = "eager"
    clock_mhz: int | None = None
    power_limit_w: float | None = None
    per_group: bool = False
    events: bool = False
    quick: bool = False
    strict: bool = False
    out: Path | None = None

    def run(self) -> int:
        """Predict, print and write.

        Returns:
            0, or 1 if nothing of it fits its device's memory.

        Raises:
            ConfigError: If a name is not known, or there is no answer.
        """
        if self.out is not None:
            check_target(self.out)
        cells = self.predict()
        if self.json:
            print(to_json(cells))
        else:
            self.show(cells, terminal())
        if self.out is not None:
            write_cells(cells, self.out, per_group=self.per_group)
            if not self.json:
                print(f"Written to {self.out}")
        return int(not any(cell.estimate is not None and cell.estimate.fits for cell in cells))

    def predict(self) -> tuple[Cell, ...]:
        """Return every combination that was asked for."""
        point = OperatingPoint(sm_clock_mhz=self.clock_mhz, power_limit_w=self.power_limit_w)
        question = self.question(
            mode=self.mode, point=point, events=self.events, strict=self.strict
        )
        with progress() as say:
            cells = matrix(question, progress=say)
            if len(cells) > 1 or self.quick:
                return cells
            return (with_opportunities(question, cells[0], progress=say),)

    def show(self, cells: Sequence[Cell], console: Console) -> None:
        """Print ``cells``: first the sentence a reader needs, then the tables."""
        if len(cells) == 1:
            console.print(detail(cells[0]))
        else:
            for said in answers(cells):
                console.print(said, style="bold")
            console.print(overview(cells, console))
        for cell in cells:
            self._show_parts(cell, cells, console)

    def _show_parts(self, cell: Cell, cells: Sequence[Cell], console: Console) -> None:
        if cell.estimate is None or not (self.per_group or self.events):
            return
        if len(cells) > 1:
            console.print(f"\n[bold]{cell_name(cell, cells)}[/]")
        for phase in cell.estimate.phases:
            if self.per_group:
                console.print(group_table(phase, max_rows=MAX_ROWS))
            if self.events:
                console.print(event_table(phase.events, title=f"Events of {phase.phase}"))
