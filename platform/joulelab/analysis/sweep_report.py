"""What a sweep found as a report: page, plots, table, answer, and curves for a tracking store."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from joulelab.analysis.course_plot import courses_figure
from joulelab.analysis.methods import methods_paragraph
from joulelab.analysis.plots import can_plot, phase_figure, phase_panels
from joulelab.analysis.products import (
    PRODUCTS,
    closings,
    products_frame,
    products_sentences,
    side_by_side,
)
from joulelab.analysis.study_report import Section, StudyReport
from joulelab.analysis.style import panel_figure
from joulelab.analysis.sweep import PhaseResult, SweepResult
from joulelab.analysis.sweep_table import reported_table, sweep_frame, sweep_listing
from joulelab.analysis.table import Columns, numbers_at
from joulelab.analysis.wording import phase_names, point_name, sentence
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.objectives import OBJECTIVES
from joulelab.tracking.study import Answer, ChartPoint, StudyHeader

TABLE = "sweep.csv"


def sweep_report(
    result: SweepResult,
    measurements: Sequence[Measurement],
    *,
    header: StudyHeader | None = None,
    traces: Path | None = None,
) -> StudyReport:
    """Put a sweep into words, tables and plots."""
    # names of files and of MLflow's metrics
    names = [re.sub(r"[^\w.-]+", "-", name) for name in phase_names(result)]
    named = dict(zip(names, result.phases, strict=True))
    drawn = {f"sweep-{name}": phase for name, phase in named.items() if can_plot(phase)}
    prefixed = [(f"{name}." if len(named) > 1 else "", phase) for name, phase in named.items()]
    settings = dict(header.settings) if header else {}
    groups = side_by_side(result)
    effects = [each.temperature.words for each in result.phases if each.temperature]
    answer = "\n".join([sentence(result), *products_sentences(groups)])

    return StudyReport(
        title=answer,
        answer=Answer(
            note="\n".join([answer, *effects]),
            summary=tuple(pair for prefix, phase in prefixed for pair in _summary(prefix, phase)),
            chart=tuple(
                point
                for prefix, phase in prefixed
                for point in _curve_points(f"curve.{prefix}", phase)
            ),
        ),
        table=TABLE,
        frame=sweep_frame(result),
        figures={stem: partial(phase_figure, phase) for stem, phase in drawn.items()},
        panels={
            f"{stem}-{name}": partial(panel_figure, draw)
            for stem, phase in drawn.items()
            for name, draw in phase_panels(phase).items()
        },
        sections=[
            _section(name, phase, measurements, settings, traces)
            for name, phase in zip(phase_names(result), result.phases, strict=True)
        ],
        closings=closings(groups, measurements),
        tables={PRODUCTS: products_frame(groups, measurements)} if groups else {},
        measurements=measurements,
        header=header,
    )


def _section(
    name: str,
    phase: PhaseResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
    traces: Path | None,
) -> Section:
    reported = reported_table(phase)
    return Section(
        name=name,
        answer=sentence(phase),
        found=phase,
        caption=_caption(phase),
        plot=partial(phase_figure, phase, with_head=False) if can_plot(phase) else None,
        listing=sweep_listing(phase),
        courses=partial(courses_figure, _trials(phase, measurements), traces),
        methods=methods_paragraph(phase, measurements, settings),
        level=phase.level,
        beside=[] if reported is None else [reported],
    )


def _trials(
    phase: PhaseResult, measurements: Sequence[Measurement]
) -> list[tuple[str, Measurement]]:
    wanted = [row for row, _ in phase.measured if row.point.is_default]
    wanted += [row for row, _ in phase.measured if row.is_recommended]
    trials = {row.point.label: point_name(row.point) for row in wanted}
    boards = {board.uuid for board in phase.boards}
    found: dict[str, Measurement] = {}
    for m in measurements:
        asked, label = m.configuration, m.configuration.point.label
        of_phase = asked.workload == phase.workload and asked.knobs == phase.knobs
        is_shown = m.phase == phase.phase and m.device.uuid in boards and label in trials
        if m.valid and of_phase and is_shown:
            found.setdefault(label, m)
    return [(name, found[label]) for label, name in trials.items() if label in found]


def _caption(phase: PhaseResult) -> str:
    aim = OBJECTIVES[phase.objective].label
    effect = f" {phase.temperature.words}" if phase.temperature else ""
    return (
        f"Energy, time and {aim} per {phase.unit} over the requested SM clock, and energy against "
        "time. Green: clocks that are statistically indistinguishable from the one of the lowest "
        f"{aim}, which has a ring ({100 * phase.level:.0f} %); the one that is named is the "
        "fastest of them. Bars: expanded uncertainty, k=2. The thick line is the Pareto front."
        f"{effect}"
    )


def _summary(prefix: str, phase: PhaseResult) -> list[tuple[str, float]]:
    if phase.best is None or phase.least is None:
        return []
    return [
        *((f"best.{prefix}{name}", value) for name, value in numbers_at(phase.best, _ANSWER)),
        (f"best.{prefix}num_in_set", float(len(phase.members))),
        *((f"lowest.{prefix}{name}", value) for name, value in numbers_at(phase.least, _ANSWER)),
    ]


_COSTS = ("energy_per_unit_j", "time_per_unit_s", "power_w", "edp_js")
_ANSWER: Columns = {
    **{name: f"point.{name}" for name in ("sm_clock_mhz", "mem_clock_mhz", "power_limit_w")},
    **{name: f"figures.{name}" for name in _COSTS[:2]},
    **{name: f"figures.{name}.value" for name in ("saving", "slowdown")},
}


def _curve_points(prefix: str, phase: PhaseResult) -> Iterator[ChartPoint]:
    """Yield what every requested SM clock of a phase costs; the step is the clock in MHz.

    Points of another power limit or memory clock lie on curves of their own, whose names say so.
    """
    for row, figures in sorted(phase.measured, key=lambda each: each[0].point.sm_clock_mhz or 0):
        if row.point.sm_clock_mhz is None:
            continue
        rest = replace(row.point, sm_clock_mhz=None)
        suffix = "" if rest == OperatingPoint() else f" at {rest.label}"
        yield ChartPoint(
            step=row.point.sm_clock_mhz,
            values=tuple((f"{prefix}{name}{suffix}", getattr(figures, name)) for name in _COSTS),
            revised=True,
        )
