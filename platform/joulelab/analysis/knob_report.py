"""What a study of knobs found as a report: page, plot, table and answer."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from matplotlib.axes import Axes
from rich.console import Console, RenderableType

from joulelab.analysis.figure_file import panel_figure, themed_svg
from joulelab.analysis.knob_log import KnobLog
from joulelab.analysis.knob_plot import caption, draw_panel, knob_figure
from joulelab.analysis.knob_study import KnobPhase, KnobResult, Panel
from joulelab.analysis.knob_table import knob_frame, knob_legend, knob_table
from joulelab.analysis.knob_wording import sentence
from joulelab.analysis.methods import grid_paragraph
from joulelab.analysis.study_report import Section, StudyReport, heading
from joulelab.analysis.table import fitting
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import Answer, StudyHeader

TABLE, PLOT = "study.csv", "study"
_LEAST_WANTED = ("clock", "time of", "power", "throughput")


def knob_report(
    result: KnobResult,
    log: KnobLog,
    measurements: Sequence[Measurement],
    *,
    header: StudyHeader | None,
) -> StudyReport:
    """Put a study of knobs into words, tables and plots."""
    note = sentence(result, log.study.conclude)
    drawn = [phase for phase in result.main_phases if len(phase.measured) > 1]
    return StudyReport(
        study=result.study,
        title=note,
        answer=Answer(
            note=note,
            summary=tuple(pair for phase in result.phases for pair in _summary(phase)),
        ),
        table=TABLE,
        frame=knob_frame(result),
        figures={PLOT: partial(knob_figure, drawn, log.panels, note)} if drawn else {},
        panels={
            f"{PLOT}-{phase.phase}-{panel}": partial(panel_figure, _drawing(phase, panel))
            for phase in drawn
            for panel in log.panels
        },
        sections=partial(knob_sections, result.phases, log.panels, measurements),
        tables=partial(_tables, result),
        measurements=measurements,
        header=header,
    )


def knob_sections(
    phases: Sequence[KnobPhase], panels: Sequence[Panel], measurements: Sequence[Measurement]
) -> list[Section]:
    """Put phases of a study of knobs into the words and the plots of a page."""
    return [
        Section(
            name=phase.title,
            answer=f"{phase.title} over {', '.join(axis.title for axis in phase.axes)}",
            found=phase,
            plot=themed_svg(knob_figure([phase], panels), f"p{number}-")
            if len(phase.measured) > 1
            else None,
            caption=caption(phase),
            sheet=knob_table(phase),
            legend=knob_legend(phase),
            methods=grid_paragraph(phase, measurements),
            level=phase.level,
        )
        for number, phase in enumerate(phases)
    ]


def _tables(
    result: KnobResult, console: Console, _max_rows: int | None
) -> Iterable[RenderableType]:
    for phase in result.phases:
        yield heading(phase.title, phase.boards[0])
        yield fitting(console, partial(knob_table, phase, knob_legend(phase)), _LEAST_WANTED)


def _drawing(phase: KnobPhase, panel: Panel) -> Callable[[Axes], None]:
    return lambda axes: draw_panel(axes, phase, panel)


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
