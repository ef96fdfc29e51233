"""The last step of a study of knobs: its answer, with report, plot and table."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from joulelab.analysis.knob_log import KnobLog, KnobStudy, write_knob_log
from joulelab.analysis.knob_study import KnobPhase, KnobResult, Panel, analyse_knobs
from joulelab.analysis.knob_table import MINOR, knob_legend, knob_sheet, write_knob_csv
from joulelab.analysis.knob_wording import sentence
from joulelab.analysis.methods import grid_paragraph, uncertainty_statement
from joulelab.analysis.table import fitting, lay_out
from joulelab.analysis.wording import board_words
from joulelab.core.measurement import Measurement
from joulelab.core.quality import Quality
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer

REPORT, TABLE, PLOT = "report.html", "study.csv", "study"


def conclude_knobs(
    store: ResultStore, study: KnobStudy, quality: Sequence[tuple[Quality, ...]] = ()
) -> KnobResult:
    """Analyse a study and write answer, log, report, plot and table into its results folder.

    Args:
        store: The study's results.
        study: What it was to measure, and how to tell it.
        quality: What the outputs of each case are worth; empty if not scored.

    Raises:
        ConfigError: If there is nothing to analyse.
        TrackingError: If the results cannot be read or the answer not be written.
    """
    from joulelab.analysis.knob_plot import save_knob_plot
    from joulelab.analysis.report import write_page

    measurements = store.read()
    result = analyse_knobs(measurements, study.grid, quality=quality)
    answer = sentence(result, study.say)
    drawn = [phase for phase in result.main_phases if len(phase.measured) > 1]
    panels = _panels(study, quality)
    plots = save_knob_plot(drawn, panels, answer, store.folder / PLOT) if drawn else ()
    write_knob_csv(result, store.folder / TABLE)
    write_knob_log(store, KnobLog(study=study, quality=tuple(quality)))
    write_page(
        store.folder / REPORT,
        study=result.study,
        answer=answer,
        views=[view_of(phase, panels, n, measurements) for n, phase in enumerate(result.phases)],
        measurements=measurements,
        boards=[board for phase in result.phases for board in phase.boards],
        header=store.read_study(),
    )
    files = (REPORT, TABLE, *(path.name for path in plots))
    summary = tuple(pair for phase in result.phases for pair in _summary(phase))
    store.write_answer(Answer(note=answer, summary=summary, files=files))
    return result


def print_knobs(
    result: KnobResult, study: KnobStudy, folder: Path, *, console: Console | None = None
) -> None:
    """Print what a study found: a table of each phase, the answer, and where the rest is."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 100)
    for phase in result.phases:
        console.print(f"\n[bold]{phase.title}[/] on {board_words(phase.boards[0])}")
        console.print(fitting(console, partial(_lay_out, phase), MINOR))
    console.print(sentence(result, study.say), style="bold", highlight=False, markup=False)
    answer = ResultStore(folder).read_answer()
    for file in answer.files if answer is not None else ():
        console.print(f"  {folder / file}", soft_wrap=True, highlight=False)


def _lay_out(phase: KnobPhase, without: Collection[str]) -> Table:
    return lay_out(knob_sheet(phase), knob_legend(phase), without=without)


def _panels(study: KnobStudy, quality: Sequence[tuple[Quality, ...]]) -> tuple[Panel, ...]:
    """Return the columns of the plot: the last one shows quality where there is any."""
    return (*study.panels[:-1], "quality") if any(quality) else study.panels


def view_of(
    phase: KnobPhase, panels: Sequence[Panel], number: int, measurements: Sequence[Measurement]
) -> Mapping[str, object]:
    """Put a phase into the words and the plot of a section of a report."""
    from joulelab.analysis.knob_plot import caption, inline_knob_svg
    from joulelab.analysis.theme import themed

    has_plot = len(phase.measured) > 1
    return {
        "name": phase.title,
        "answer": f"{phase.title} over {', '.join(axis.title for axis in phase.axes)}",
        "phase": phase,
        "plot": themed(inline_knob_svg(phase, panels), f"p{number}-") if has_plot else None,
        "caption": caption(phase),
        "sheet": knob_sheet(phase),
        "legend": knob_legend(phase),
        "whole": None,
        "reasons": Counter(f.reason for e in phase.exclusions for f in e.findings),
        "drifting": [drift for drift in phase.drifts if drift.exceeds(0.01)],
        "uncertainty": uncertainty_statement(phase.level),
        "methods": grid_paragraph(phase, measurements),
        "device": board_words(phase.boards[0]),
    }


def _summary(phase: KnobPhase) -> list[tuple[str, float]]:
    """List what the reference and the least energy are, under the names of the vocabulary."""
    least = min(phase.measured, key=lambda m: m[1].energy_per_unit_j, default=None)
    first = next((m for m in phase.measured if m[0].case.label == phase.reference), None)
    return [
        (f"{name}.{phase.phase}.{quantity}", getattr(found[1], quantity))
        for name, found in (("best", least), ("first", first))
        if found is not None
        for quantity in ("energy_per_unit_j", "time_per_unit_s", "power_w")
    ]
