"""What a search found as a report: page, plots, table and answer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, isinf
from pathlib import Path
from typing import Any

from joulelab.analysis import search_plot
from joulelab.analysis.course_plot import courses_figure
from joulelab.analysis.listing import CostColumn, Line, Listing, scaled
from joulelab.analysis.methods import search_paragraph
from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, si_scale
from joulelab.analysis.search_result import SearchResult, SearchRow, chart_point, chosen_rows
from joulelab.analysis.search_wording import recommendation, remarks
from joulelab.analysis.study_report import Section, StudyReport
from joulelab.analysis.table import Columns, Frame, frame, interval_columns, numbers_at, plus_minus
from joulelab.analysis.wording import replay_words
from joulelab.core.additive import Interval
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.measurement import Measurement
from joulelab.searching.base import Figures
from joulelab.searching.constraints import Constraint, Quantity, bounded
from joulelab.searching.space import SearchSpace
from joulelab.searching.standing import Compared
from joulelab.tracking.study import Answer, RunMetrics, StudyHeader

TABLE = "search.csv"


def search_report(
    result: SearchResult,
    measurements: Sequence[Measurement],
    *,
    header: StudyHeader | None = None,
    traces: Path | None = None,
    runs: Sequence[RunMetrics] = (),
) -> StudyReport:
    """Put a search into words, tables and plots; ``runs`` are of single measurements."""
    settings = dict(header.settings) if header else {}
    drawn = search_plot.FIGURES if search_plot.can_plot_search(result) else {}
    return StudyReport(
        title=recommendation(result.answer, result.problem).replace(" %", "\N{NO-BREAK SPACE}%"),
        answer=Answer(
            note=result.sentence,
            summary=tuple(_summary(result)),
            chart=tuple(map(chart_point, result.steps)),
            runs=tuple(runs),
        ),
        table=TABLE,
        frame=search_frame(result),
        figures={stem: partial(draw, result) for stem, draw in drawn.items()},
        panels={stem: partial(search_plot.paper_figure, result, stem) for stem in drawn},
        sections=[_section(result, measurements, settings, traces)],
        measurements=measurements,
        header=header,
    )


def _section(
    result: SearchResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
    traces: Path | None,
) -> Section:
    can_plot = search_plot.can_plot_search(result)
    return Section(
        name=result.problem.space.workload,
        answer="Energy against time of what was measured",
        found=result,
        remarks=remarks(result.answer, result.problem, stopped_by=result.method.stopped_by),
        plot=partial(search_plot.front_figure, result, with_head=False) if can_plot else None,
        caption=search_plot.front_caption(result),
        listing=search_listing(result),
        course=partial(search_plot.course_figure, result, with_head=False) if can_plot else None,
        course_caption=search_plot.course_caption(result),
        courses=partial(courses_figure, _chosen_trials(result, measurements), traces),
        methods=search_paragraph(result, measurements, settings),
        level=result.answer.standing.level,
    )


def _chosen_trials(
    result: SearchResult, measurements: Sequence[Measurement]
) -> list[tuple[str, Measurement]]:
    wanted = {result.problem.space.baseline: "baseline", result.answer.standing.best: "chosen"}
    has_phases = len({m.phase for m in measurements}) > 1
    found: dict[str, Measurement] = {}
    for m in measurements:
        role = wanted.get(m.configuration)
        if m.valid and role is not None:
            found.setdefault(f"{role}, {m.phase}" if has_phases else role, m)
    return sorted(found.items())


def _summary(result: SearchResult) -> list[tuple[str, float]]:
    found, space = result.answer, result.problem.space
    best, fastest = (_axis_numbers(space, c.configuration) for c in (found.best, found.fastest))
    counts = {
        "num_in_set": len(found.alike),
        "num_unmeasured": len(found.unmeasured),
        "num_trials": len(result.steps),
    }
    return [
        *((f"best.{name}", value) for name, value in best),
        *((f"fastest.{name}", value) for name, value in fastest),
        *numbers_at(found, _ANSWER),
        *((name, float(num)) for name, num in counts.items()),
        *numbers_at(found, {"pays_after_units": "pays_after.value"}),
    ]


_ANSWER: Columns = {
    "best.energy_per_unit_j": "best.figures.energy_j",
    "best.time_per_unit_s": "best.figures.time_s",
    **{f"best.{name}": f"best.figures.{name}" for name in ("retention", "memory_b")},
    **{name: f"{name}.value" for name in ("energy_ratio", "time_ratio", "cost_ratio")},
}


def _axis_numbers(space: SearchSpace, configuration: Configuration) -> list[tuple[str, float]]:
    values = zip(space.axes, space.values(configuration), strict=True)
    return [
        (name, float(value))
        for name, value in values
        if value is not None and not isinstance(value, str | bool)
    ]


_HEADS = {
    "sm_clock_mhz": ("clock", "MHz"),
    "mem_clock_mhz": ("memory", "MHz"),
    "power_limit_w": ("limit", "W"),
}


Measured = tuple[SearchRow, Compared]


def search_listing(result: SearchResult) -> Listing[SearchRow, Measured]:
    """Put the configurations that were tried into words, with SI prefixes that suit them."""
    axes = result.problem.space.axes
    return Listing(
        rows=result.rows,
        noun="configurations that were tried",
        heads=[_HEADS.get(name, (name.replace("_", " "), "")) for name in axes],
        quantities=partial(_quantities, result),
        line=lambda row: Line(
            mark=("*" if row.is_best else "=" if row.in_set else " ")
            + _role(result, row)
            + "^" * row.is_capped,
            named=[_value(*pair, row) for pair in zip(axes, row.values, strict=True)],
            found=(row, row.found) if row.found else None,
            why="power-capped" if row.is_capped else row.reason.partition(":")[0],
        ),
        choose=partial(chosen_rows, result),
        legend=_legend(result),
        minor=("power", "n", "time added", "energy saved"),
    )


def _legend(result: SearchResult) -> list[str]:
    level = result.answer.standing.level
    marks = ["* chosen", f"= statistically indistinguishable from it ({level:.0%})"]
    if len(result.answer.front) > 1:
        marks += ["f on the Pareto front", "k its knee"]
    if any(not row.is_feasible for row, _ in result.measured):
        marks.append("! not sure to keep to the constraints")
    if any(row.is_capped for row in result.rows):
        marks.append("^ power-capped")
    lines = [
        *("   ".join(marks[at : at + 2]) for at in range(0, len(marks), 2)),  # else they break
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; {level:.0%} interval of "
        "what is against the baseline",
    ]
    if any(found.figures.recording for _, found in result.measured):
        lines.append(replay_words(result.rows, is_open=result.answer.standing.is_open))
    if any(row.num_invalid for row in result.rows):
        lines.append("n: trials with figures, minus those without")
    return lines


def search_frame(result: SearchResult) -> Frame:
    """List every configuration that was tried: its values on the axes, then what is known."""
    axes = {name: f"row.values.{i}" for i, name in enumerate(result.problem.space.axes)}
    return frame({**axes, **_COLUMNS}, [{"result": result, "row": row} for row in result.rows])


_ROLES = (
    "is_baseline", "is_best", "in_set", "on_front", "is_knee", "is_feasible", "is_capped",
)  # fmt: skip
_COLUMNS: Columns = {
    "workload": "result.problem.space.workload",
    "unit": "result.unit",
    **{name: f"row.{name}" for name in ("num_valid", "num_invalid", "reason")},
    **{name: f"row.found.figures.{name}" for name in ("power_w", "temperature_c", "memory_b")},
    "energy_per_unit_j": "row.found.figures.energy_j",
    "energy_per_unit_u_j": "row.found.figures.energy_u_j",
    "time_per_unit_s": "row.found.figures.time_s",
    "time_per_unit_u_s": "row.found.figures.time_u_s",
    **{name: f"row.found.figures.{name}" for name in ("retention", "retention_u", "latency_s")},
    **{name: f"row.found.figures.{name}" for name in ("ttft_s", "ttft_u_s", "tpot_s", "tpot_u_s")},
    **interval_columns("energy_ratio", "row.found.energy_ratio"),
    **interval_columns("time_ratio", "row.found.time_ratio"),
    **interval_columns("cost_ratio", "row.found.cost_ratio"),
    **{name: f"row.{name}" for name in _ROLES},
    "config_hash": "row.configuration.config_hash",
}


def _quantities(result: SearchResult, rows: Sequence[SearchRow]) -> list[CostColumn[Measured]]:
    found = [row.found.figures for row in rows if row.found is not None]
    energy, energy_prefix = si_scale(figures.energy_j for figures in found)
    time, time_prefix = si_scale(figures.time_s for figures in found)
    objective = result.problem.objective
    quantities: list[tuple[str, str, Callable[[Any], str]]] = [
        ("power", "W", lambda m: f"{m[1].figures.power_w:.0f}"),
        ("energy", f"{energy_prefix}J/{result.unit}",
         lambda m: _pm(m[1].figures.energy_j * energy, m[1].figures.energy_u_j * energy)),
        ("time", f"{time_prefix}s/{result.unit}",
         lambda m: _pm(m[1].figures.time_s * time, m[1].figures.time_u_s * time)),
        (f"{objective.label} of", "baseline, %",
         lambda m: _cost(m[1].cost_ratio, is_one=m[0].is_baseline)),
        ("energy saved", "%", lambda m: _change(m[1].energy_ratio, -1, is_zero=m[0].is_baseline)),
        ("time added", "%", lambda m: _change(m[1].time_ratio, 1, is_zero=m[0].is_baseline)),
        ("quality", "% kept", lambda m: f"{100 * m[1].figures.retention:.1f}"),
    ]  # fmt: skip
    # of energy alone the cost would say what the saving says
    has_cost = objective.time_exponent or objective.quality_exponent
    left_out = [f"{objective.label} of"] * (not has_cost) + ["quality"] * (not result.has_quality)
    bounds = {each.quantity: each for each in result.problem.constraints}
    return [
        *(CostColumn(*each) for each in quantities if each[0] not in left_out),
        *(_bounded_column(each, found) for each in bounds.values() if each.quantity in _BOUNDED),
    ]


_BOUNDED: dict[Quantity, tuple[str, str]] = {
    "latency_s": ("request", "s"),
    "ttft_s": ("first token", "s"),
    "tpot_s": ("further token", "s"),
    "memory_b": ("device memory", "B"),
    "temperature_c": ("hottest", "C"),
}
"""Heads of what has a column where it is bounded; all else that can be has one anyway."""


def _bounded_column(bound: Constraint, found: Sequence[Figures]) -> CostColumn[Measured]:
    values = [bounded(bound, figures) for figures in found]
    name, unit = _BOUNDED[bound.quantity]
    # time has the uncertainty, and a table of 100 columns no room for more of them
    return scaled(name, unit, lambda m: bounded(bound, m[1].figures), values, has_u=False)


def _role(result: SearchResult, row: SearchRow) -> str:
    if row.found is not None and not row.is_feasible:
        return "!"
    if len(result.answer.front) == 1:
        return " "
    return "k" if row.is_knee else "f" if row.on_front else " "


def _value(name: str, value: KnobValue, row: SearchRow) -> str:
    if value is not None:
        return f"{value:g}" if isinstance(value, float) else f"{value}"
    return "baseline" if row.is_baseline and name == "sm_clock_mhz" else "default"


def _pm(value: float, u: float) -> str:
    if not 1e-6 * value < u < inf:
        return f"{value:.{decimals_for(value, digits=5)}f}"
    return plus_minus(value, u, decimals_for(u))


def _cost(ratio: Interval | None, *, is_one: bool) -> str:
    if ratio is None:
        return "no bound"
    return "100" if is_one else _pm(100 * ratio.value, 100 * ratio.half_width)


def _change(ratio: Interval, sign: int, *, is_zero: bool) -> str:
    """Write a ratio to the baseline as what is added to it, or saved, in percent."""
    if is_zero:
        return "0"
    half = 100 * ratio.half_width
    if isinf(half):
        return f"{100 * sign * (ratio.value - 1):+.1f}"
    decimals = min(max(decimals_for(half, digits=1), 1), 2) if half < 10 else 0
    return f"{100 * sign * (ratio.value - 1):+.{decimals}f} {PLUS_MINUS} {half:.{decimals}f}"
