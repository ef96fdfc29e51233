"""What a sweep found as a report: page, plots, table, answer, and curves for a tracking store."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import isinf
from pathlib import Path

from rich.table import Column, Table

from joulelab.analysis.compared import Figures
from joulelab.analysis.course_plot import courses_figure
from joulelab.analysis.listing import CostColumn, Line, Listing, scaled
from joulelab.analysis.methods import methods_paragraph
from joulelab.analysis.plots import can_plot, phase_caption, phase_figure, phase_panels
from joulelab.analysis.products import (
    PRODUCTS,
    closings,
    products_frame,
    products_sentences,
    side_by_side,
)
from joulelab.analysis.quantities import PLUS_MINUS, counted, point_name
from joulelab.analysis.study_report import Section, StudyReport, file_stem
from joulelab.analysis.style import panel_figure
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow, cost_of, curve_points
from joulelab.analysis.table import (
    Columns,
    Frame,
    frame,
    interval_columns,
    numbers_at,
    quiet_table,
)
from joulelab.analysis.wording import clock_words, phase_names, scatter_words, sentence
from joulelab.core.additive import Interval
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.objectives import ED2P, EDP, ENERGY, OBJECTIVES, TIME, Objective
from joulelab.tracking.study import Answer, StudyHeader

TABLE = "sweep.csv"


def sweep_report(
    result: SweepResult,
    measurements: Sequence[Measurement],
    *,
    header: StudyHeader | None = None,
    traces: Path | None = None,
) -> StudyReport:
    """Put a sweep into words, tables and plots."""
    names = [file_stem(name) for name in phase_names(result)]
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
                for point in curve_points(f"curve.{prefix}", phase)
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
        caption=phase_caption(phase),
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


def _summary(prefix: str, phase: PhaseResult) -> list[tuple[str, float]]:
    if phase.best is None or phase.least is None:
        return []
    return [
        *((f"best.{prefix}{name}", value) for name, value in numbers_at(phase.best, _ANSWER)),
        (f"best.{prefix}num_in_set", float(len(phase.members))),
        *((f"lowest.{prefix}{name}", value) for name, value in numbers_at(phase.least, _ANSWER)),
    ]


_ANSWER: Columns = {
    **{name: f"point.{name}" for name in ("sm_clock_mhz", "mem_clock_mhz", "power_limit_w")},
    **{name: f"figures.{name}" for name in ("energy_per_unit_j", "time_per_unit_s")},
    **{name: f"figures.{name}.value" for name in ("saving", "slowdown")},
}


_FIGURES = (
    "power_w", "energy_per_unit_j", "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s",
    "edp_js", "edp_u_js", "ed2p_js2", "ed2p_u_js2",
)  # fmt: skip
_COLUMNS: Columns = {
    "workload": "phase.workload",
    "phase": "phase.phase",
    "device": "phase.device_name",
    "sm_clock_mhz": "row.point.sm_clock_mhz",
    "mem_clock_mhz": "row.point.mem_clock_mhz",
    "power_limit_w": "row.point.power_limit_w",
    "observed_sm_clock_mhz": "row.observed_clock_mhz",
    **{name: f"row.{name}" for name in ("power_cap_share", "num_valid", "num_invalid", "reasons")},
    **{name: f"row.figures.{name}" for name in _FIGURES},
    **interval_columns("saving", "row.figures.saving"),
    **interval_columns("slowdown", "row.figures.slowdown"),
    **{name: f"row.{name}" for name in ("is_recommended", "is_lowest", "in_set", "on_front")},
    **{name: f"phase.{name}" for name in ("unit", "objective")},
    "reference_temperature_c": "phase.temperature.reference_c",
    **{name: f"row.figures.{name}" for name in ("cost", "cost_u")},
}
COLUMNS = tuple(_COLUMNS)
"""Columns of every CSV, in SI units; shares are 0 to 1; ``cost`` is the objective's value. What the
workload reported follows them."""


Measured = tuple[SweepRow, Figures]


def sweep_listing(phase: PhaseResult) -> Listing[SweepRow, Measured]:
    """Put the operating points of ``phase`` into words, with SI prefixes that suit them."""
    return Listing(
        rows=phase.rows,
        noun="points",
        heads=[("clock", "MHz")],
        quantities=partial(_quantities, phase),
        line=lambda row: Line(
            mark=_mark(row),
            named=[clock_words(row)],
            found=(row, row.figures) if row.figures else None,
            why=row.reasons[0] if row.reasons else "not compared",
        ),
        choose=partial(selection, phase),
        legend=_legend(phase),
        minor=("ED2P", "EDP", "power"),
    )


def selection(phase: PhaseResult, max_rows: int | None) -> list[SweepRow]:
    """Choose rows that tell the story in at most ``max_rows``; ``None`` takes all.

    They are the default, the recommended point, the lowest, the ends of the confidence set, both
    ends of the sweep, and even steps between.
    """
    rows = phase.rows
    if max_rows is None or len(rows) <= max_rows:
        return list(rows)
    members = [i for i, row in enumerate(rows) if row.in_set]
    named = [i for i, r in enumerate(rows) if r.point.is_default or r.is_recommended or r.is_lowest]
    kept = {0, len(rows) - 1, *named, *members[:1], *members[-1:]}
    others = [i for i, row in enumerate(rows) if i not in kept and row.figures is not None]
    num = min(max(max_rows - len(kept), 0), len(others))
    kept |= {others[(2 * k + 1) * len(others) // (2 * num)] for k in range(num)}
    return [rows[i] for i in sorted(kept)]


def _legend(phase: PhaseResult) -> list[str]:
    aim = OBJECTIVES[phase.objective].label
    lines = [
        f"* recommended: {_rule(phase)}",
        f"< lowest {aim}   = statistically indistinguishable from it ({phase.level:.0%})   "
        "^ throttled by the power cap",
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; "
        f"{phase.level:.0%} interval of what is saved and added",
    ]
    lines += scatter_words(phase)
    if any(row.num_invalid for row in phase.rows):
        lines.append("n: valid measurements, minus those that broke the validity contract")
    apart = Counter(why for why, _ in {(e.why, e.label): 0 for e in phase.exclusions if e.why})
    lines += [f"{counted(num, 'point')} not compared: {why}" for why, num in apart.items()]
    lost = Counter(row.reasons[:1] for row in phase.rows if row.figures is None)
    if lost:
        named = ", ".join(f"{num} {' '.join(why) or 'not compared'}" for why, num in lost.items())
        lines.append(f"{counted(lost.total(), 'point')} without a valid measurement: {named}")
    return lines


def reported_table(phase: PhaseResult) -> Table | None:
    """Lay out what the workload reported of its own work over the points; ``None`` for nothing."""
    rows = [row for row in selection(phase, 6) if row.reported]
    if not rows:
        return None
    heads = [Column(row.point.label, justify="right") for row in rows]
    table = quiet_table("", *heads, title="reported by the workload", padding=(0, 0))
    for name in dict.fromkeys(name for row in rows for name, _ in row.reported):
        values = [dict(row.reported).get(name) for row in rows]
        table.add_row(name, *("" if value is None else f"{value:.4g}" for value in values))
    return table


def sweep_frame(result: SweepResult) -> Frame:
    """List every operating point of every phase."""
    names = dict.fromkeys(
        name for phase in result.phases for row in phase.rows for name, _ in row.reported
    )
    entries = [
        {"phase": phase, "row": row, "reported": tuple(map(dict(row.reported).get, names))}
        for phase in result.phases
        for row in phase.rows
    ]
    reported = {f"figures.{name}": f"reported.{place}" for place, name in enumerate(names)}
    return frame({**_COLUMNS, **reported}, entries)


def _quantities(phase: PhaseResult, shown: Sequence[SweepRow]) -> list[CostColumn[Measured]]:
    figures = [row.figures for row in shown if row.figures is not None]
    aim = OBJECTIVES[phase.objective]
    costs = dict.fromkeys((ENERGY, TIME, EDP, ED2P, aim))

    def column(cost: Objective) -> CostColumn[Measured]:
        name, unit, values = cost_of(cost, phase.unit)
        found, has_u = [values(each) for each in figures], cost in (ENERGY, TIME)
        return scaled(name, unit, lambda m: values(m[1]), found, has_u=has_u)

    return [
        CostColumn("power", "W", lambda m: f"{m[1].power_w:.1f}"),
        *map(column, costs),
        CostColumn("energy saved", "%", lambda m: _share(m[1].saving, m[0])),
        CostColumn("time added", "%", lambda m: _share(m[1].slowdown, m[0])),
    ]


def _mark(row: SweepRow) -> str:
    place = "*" if row.is_recommended else "<" if row.is_lowest else "=" if row.in_set else " "
    return place + ("^" if row.power_capped else " ")


def _share(interval: Interval | None, row: SweepRow) -> str:
    if interval is None or row.point.is_default:
        return "" if interval is None else "0"
    value = f"{100 * interval.value:+.1f}"
    if isinf(interval.half_width):
        return value
    return f"{value} {PLUS_MINUS} {100 * interval.half_width:.1f}"


def _rule(phase: PhaseResult) -> str:
    if phase.best is not None and phase.best.point.is_default:
        return (
            f"the driver's default, which may have the lowest {OBJECTIVES[phase.objective].label}"
        )
    return "the fastest of those that are < or ="
