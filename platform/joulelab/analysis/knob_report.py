"""What a study of knobs found as a report: page, plot, table and answer."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite

from joulelab.analysis.baseline import rounded
from joulelab.analysis.knob_grid import KnobLog, Panel
from joulelab.analysis.knob_plot import caption, draw_panel, knob_figure
from joulelab.analysis.knob_study import KnobPhase, KnobResult, KnobRow
from joulelab.analysis.knob_wording import Measured, equals, losses, sentence, winners
from joulelab.analysis.listing import CostColumn, Line, Listing
from joulelab.analysis.methods import grid_paragraph
from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, quantity, uncertain
from joulelab.analysis.study_report import Section, StudyReport
from joulelab.analysis.style import panel_figure
from joulelab.analysis.table import Columns, Frame, frame, interval_columns, plus_minus
from joulelab.analysis.wording import FEW_BOARDS, UNREPEATED
from joulelab.core.additive import Interval
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import Answer, StudyHeader

TABLE, PLOT = "study.csv", "study"


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
        title=note,
        answer=Answer(
            note=note,
            summary=tuple(pair for phase in result.phases for pair in _summary(phase)),
        ),
        table=TABLE,
        frame=knob_frame(result),
        figures={PLOT: partial(knob_figure, drawn, log.panels, note)} if drawn else {},
        panels={
            f"{PLOT}-{phase.phase}-{panel}": partial(
                panel_figure, partial(draw_panel, phase=phase, panel=panel)
            )
            for phase in drawn
            for panel in log.panels
        },
        sections=knob_sections(result.phases, log.panels, measurements),
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
            plot=partial(knob_figure, [phase], panels) if len(phase.measured) > 1 else None,
            caption=caption(phase),
            listing=knob_listing(phase),
            methods=grid_paragraph(phase, measurements),
            level=phase.level,
        )
        for phase in phases
    ]


def _summary(phase: KnobPhase) -> list[tuple[str, float]]:
    least = min(phase.measured, key=lambda m: m[1].energy_per_unit_j, default=None)
    first = next((m for m in phase.measured if m[0].case.label == phase.reference), None)
    return [
        (f"{name}.{phase.phase}.{quantity}", getattr(found[1], quantity))
        for name, found in (("best", least), ("first", first))
        if found is not None
        for quantity in ("energy_per_unit_j", "time_per_unit_s", "power_w")
    ]


def knob_listing(phase: KnobPhase) -> Listing[KnobRow, Measured]:
    """Put the combinations of a phase into words; why some have no figures is in the legend."""
    least = winners(phase)
    best = {row.case.label for row in least}
    same = {other.case.label for row in least for other in equals(phase, row)}
    lost = {loss.row.case.label for loss in losses(phase)}
    reasons = _reasons(phase)

    def line(row: KnobRow) -> Line[Measured]:
        label = row.case.label
        mark = "*" if label in best else "=" if label in same else " "
        word = "cannot run" if row.is_unsupported else "no figure"
        return Line(
            mark=mark + ("!" if label in lost else " "),
            named=[str(value) for value in row.case.values],
            found=(row, row.figures) if row.figures else None,
            why=f"{word} [{reasons.get(row.reason)}]",
        )

    return Listing(
        rows=phase.rows,
        noun="combinations",
        heads=[(axis.title, "") for axis in phase.axes],
        quantities=lambda _: _quantities(phase),
        line=line,
        choose=lambda _: phase.rows,
        legend=_legend(phase),
        minor=("clock", "time of", "power", "throughput"),
    )


def _legend(phase: KnobPhase) -> list[str]:
    at = f" at its {phase.axes[-1].title}" if len(phase.curves) > 1 else ""
    lines = [
        f"* least energy{at}   = statistically indistinguishable from it ({phase.level:.0%})"
        + ("   ! more than a wider format" if losses(phase) else ""),
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; {phase.level:.0%} interval "
        "of ratios to the first row",
    ]
    if phase.is_open:
        lines.append(FEW_BOARDS)
    if phase.is_unrepeated:
        lines.append(UNREPEATED)
    if any(row.num_invalid for row in phase.rows):
        lines.append("n: valid measurements, minus those that are not")
    return [*lines, *(f"[{number}] {reason}" for reason, number in _reasons(phase).items())]


def knob_frame(result: KnobResult) -> Frame:
    """List every combination in every phase."""
    metrics = sorted({metric for phase in result.phases for metric in _metrics(phase)})
    axes = {axis.knob: f"row.case.values.{i}" for i, axis in enumerate(result.phases[0].axes)}
    scores = {
        f"{metric}{part}": f"scores.{metric}.{part[1:] or 'score'}"
        for metric in metrics
        for part in ("", "_retention")
    }
    return frame({**axes, **_COLUMNS, **scores}, _entries(result))


def _entries(result: KnobResult) -> Iterator[dict[str, object]]:
    for phase in result.phases:
        best = {each.case.label for each in winners(phase)}
        lost = {loss.row.case.label for loss in losses(phase)}
        for row in phase.rows:
            label, scores = row.case.label, {each.metric: each for each in row.quality}
            yield {
                "phase": phase,
                "row": row,
                "scores": scores,
                "is_best": label in best,
                "loses": label in lost,
            }


_FIGURES = (
    "power_w", "energy_per_unit_j", "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s",
)  # fmt: skip
_COLUMNS: Columns = {
    **{name: f"phase.{name}" for name in ("workload", "phase", "unit")},
    "device": "phase.device_name",
    **{name: f"row.{name}" for name in ("num_valid", "num_invalid", "reason")},
    "sm_clock_mhz": "row.observed_clock_mhz",
    "power_cap_share": "row.power_cap_share",
    **{name: f"row.figures.{name}" for name in _FIGURES},
    **interval_columns("energy_ratio", "row.figures.energy_ratio"),
    **interval_columns("time_ratio", "row.figures.time_ratio"),
    "is_best": "is_best",
    "loses_to_wider": "loses",
}


def _quantities(phase: KnobPhase) -> list[CostColumn[Measured]]:
    unit = phase.unit

    def ratio(measured: Measured, of: Interval | None) -> str:
        return _ratio(of, is_first=measured[0].case.label == phase.reference)

    quantities: list[tuple[str, str, Callable[[Measured], str]]] = [
        ("clock", "MHz", lambda m: rounded(m[0].observed_clock_mhz)),
        ("power", "W", lambda m: f"{m[1].power_w:.1f}"),
        ("energy", f"per {unit}",
         lambda m: uncertain(m[1].energy_per_unit_j, m[1].energy_per_unit_u_j, "J")),
        ("time", f"per {unit}", lambda m: quantity(m[1].time_per_unit_s, "s")),
        ("throughput", f"{unit}/s", lambda m: quantity(1 / m[1].time_per_unit_s, "").rstrip()),
        ("energy of", "the first", lambda m: ratio(m, m[1].energy_ratio)),
        ("time of", "the first", lambda m: ratio(m, m[1].time_ratio)),
        *(
            (metric.replace("_", " "), "kept", partial(_kept, metric=metric))
            for metric in _metrics(phase)
        ),
    ]  # fmt: skip
    return [CostColumn(*each) for each in quantities]


def _ratio(ratio: Interval | None, *, is_first: bool) -> str:
    if ratio is None or is_first:
        return "1" if is_first else ""
    half = ratio.half_width
    is_wide = isfinite(half) and half > 1e-4 * ratio.value
    decimals = decimals_for(half, digits=1) if is_wide else 4
    return plus_minus(ratio.value, half, decimals)


def _kept(measured: Measured, metric: str) -> str:
    for quality in measured[0].quality:
        if quality.metric == metric:
            kept = "" if quality.retention is None else f" ({quality.retention:.0%})"
            return f"{quality.score:.3g}{kept}"
    return ""


def _metrics(phase: KnobPhase) -> list[str]:
    return list(dict.fromkeys(q.metric for row in phase.rows for q in row.quality))


def _reasons(phase: KnobPhase) -> dict[str, int]:
    found = dict.fromkeys(row.reason for row in phase.rows if row.figures is None)
    return {reason: number for number, reason in enumerate(found, 1)}
