"""The last step of a sweep: its answer, with report, plots and table, in the results folder."""

import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from joulelab.analysis.analyse import analyse_sweep
from joulelab.analysis.export import write_csv
from joulelab.analysis.sweep import PhaseResult, SweepResult
from joulelab.analysis.table import fitting_table
from joulelab.analysis.wording import device_words, phase_names, sentence
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer

REPORT, TABLE = "report.html", "sweep.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a sweep found, and the files that say so.

    Attributes:
        result: What it found.
        answer: The same for the tracking store; its files are in the results folder.
    """

    result: SweepResult
    answer: Answer


def conclude_sweep(store: ResultStore, objective: str = "edp") -> Conclusion:
    """Analyse a sweep and write answer, report, plots and table into its results folder.

    Args:
        store: The sweep's results.
        objective: What is to be low, see :func:`analyse_sweep`.

    Raises:
        ConfigError: If there is nothing to analyse, or no such objective.
        TrackingError: If the results cannot be read or the answer not be written.
    """
    from joulelab.analysis.plots import can_plot, save_plot
    from joulelab.analysis.report import write_report

    measurements = store.read()
    result = analyse_sweep(measurements, objective)
    names = _file_names(result)
    plots = [
        path.name
        for name, phase in zip(names, result.phases, strict=True)
        if can_plot(phase)
        for path in save_plot(phase, store.folder / f"sweep-{name}")
    ]
    write_csv(result, store.folder / TABLE)
    write_report(result, measurements, store.folder / REPORT, header=store.read_study())
    summary = [
        pair
        for name, phase in zip(names, result.phases, strict=True)
        for pair in _summary(f"best.{name}." if len(names) > 1 else "best.", phase)
    ]
    answer = Answer(note=sentence(result), summary=tuple(summary), files=(REPORT, TABLE, *plots))
    store.write_answer(answer)
    return Conclusion(result=result, answer=answer)


def print_sweep(
    folder: Path,
    objective: str = "edp",
    *,
    max_rows: int | None = 20,
    console: Console | None = None,
) -> None:
    """Print what a sweep found: a table of each phase, the answer, and where the rest is.

    Args:
        folder: The sweep's results folder.
        objective: What is to be low.
        max_rows: Rows of each table; ``None`` for all.
        console: Where to print; by default the standard output.

    Raises:
        ConfigError: If there is nothing to print.
        TrackingError: If the results cannot be read.
    """
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 100)
    store = ResultStore(folder)
    result = analyse_sweep(store.read(), objective)
    for name, phase in zip(phase_names(result), result.phases, strict=True):
        console.print(f"\n[bold]{name}[/] on {device_words(phase)}")
        console.print(fitting_table(phase, console, max_rows=max_rows, more=f"{TABLE} has all"))
    console.print(sentence(result), style="bold", highlight=False)
    answer = store.read_answer()
    if answer is not None:
        for file in answer.files:
            console.print(f"  {folder / file}", soft_wrap=True, highlight=False)


def _file_names(result: SweepResult) -> list[str]:
    """Name each phase so that a file system and MLflow take it."""
    return [re.sub(r"[^\w.=-]+", "-", name) for name in phase_names(result)]


def _summary(prefix: str, phase: PhaseResult) -> list[tuple[str, float]]:
    """List the answer of a phase in numbers, under the names of the vocabulary."""
    if phase.best is None:
        return []
    row = phase.row(phase.best)
    figures = row.figures
    known = {
        "sm_clock_mhz": row.point.sm_clock_mhz,
        "mem_clock_mhz": row.point.mem_clock_mhz,
        "power_limit_w": row.point.power_limit_w,
        "num_in_set": len(phase.members),
        "energy_per_unit_j": figures.energy_per_unit_j if figures else None,
        "time_per_unit_s": figures.time_per_unit_s if figures else None,
        "saving": figures.saving.value if figures and figures.saving else None,
        "slowdown": figures.slowdown.value if figures and figures.slowdown else None,
    }
    return [(prefix + name, float(value)) for name, value in known.items() if value is not None]
