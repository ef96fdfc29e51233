"""What a search found as lines of text for terminal and page, and as CSV in SI units."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, si_scale
from joulelab.analysis.search_result import SearchResult, SearchRow
from joulelab.analysis.search_wording import objective_name
from joulelab.analysis.table import (
    Columns,
    Line,
    Sheet,
    cells_at,
    count,
    fitting,
    interval_columns,
    lay_out,
    write_rows,
)
from joulelab.core.additive import Interval
from joulelab.core.configuration import KnobValue
from joulelab.searching.compare import Compared

_HEADS = {
    "sm_clock_mhz": ("clock", "MHz"),
    "mem_clock_mhz": ("memory", "MHz"),
    "power_limit_w": ("limit", "W"),
}
_MINOR = ("power", "n", "time added", "energy saved")
"""Heads of columns that go first where there is no room."""


def chosen_rows(result: SearchResult, max_rows: int | None) -> list[SearchRow]:
    """Choose the rows to show: the baseline, the best, its equals, the front, the next best."""
    if max_rows is None:
        return list(result.rows)

    def rank(row: SearchRow) -> tuple[bool, bool, bool, bool]:
        named = row.is_baseline or row.is_best or row.is_knee
        return (not named, not row.in_set, row.found is None, not row.on_front)

    kept = {row.configuration for row in sorted(result.rows, key=rank)[:max_rows]}
    return [row for row in result.rows if row.configuration in kept]


def search_sheet(result: SearchResult, rows: Sequence[SearchRow]) -> Sheet:
    """Put ``rows`` into words, with SI prefixes that suit them."""
    found = [row.found.figures for row in rows if row.found is not None]
    energy = si_scale(figures.energy_j for figures in found)
    time = si_scale(figures.time_s for figures in found)
    quality = (("quality", "% kept"),) if result.has_quality else ()
    return Sheet(
        heads=(
            *(_HEADS.get(name, (name.replace("_", " "), "")) for name in result.problem.space.axes),
            ("power", "W"),
            ("energy", f"{energy[1]}J/{result.unit}"),
            ("time", f"{time[1]}s/{result.unit}"),
            *(
                ()
                if _is_energy(result)
                else ((f"{objective_name(result.problem)} of", "baseline, %"),)
            ),
            ("energy saved", "%"),
            ("time added", "%"),
            *quality,
            ("n", ""),
        ),
        lines=tuple(_line(result, row, energy[0], time[0]) for row in rows),
    )


def search_legend(result: SearchResult, *, num_shown: int, more: str = "") -> list[str]:
    """Say what marks and columns mean, and what is not shown."""
    level = result.answer.standing.level
    marks = ["* chosen", f"= statistically indistinguishable from it ({level:.0%})"]
    if len(result.answer.front) > 1:
        marks += ["f on the Pareto front", "k its knee"]
    if any(not row.is_feasible for row, _ in result.measured):
        marks.append("! not sure to keep to the constraints")
    if any(row.is_capped for row in result.rows):
        marks.append("^ power-capped")
    lines = [
        "   ".join(marks),
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; {level:.0%} interval of "
        "what is against the baseline",
    ]
    if any(row.num_invalid for row in result.rows):
        lines.append("n: trials with figures, minus those without")
    if num_shown < len(result.rows):
        lines.append(
            f"{num_shown} of {len(result.rows)} configurations that were tried are shown"
            f"{more and f'; {more}'}"
        )
    return lines


def search_table(
    result: SearchResult, console: Console, *, max_rows: int | None = 20, more: str = ""
) -> Table:
    """Lay out what was found as wide as ``console`` allows: columns go, never digits."""
    rows = chosen_rows(result, max_rows)
    legend = search_legend(result, num_shown=len(rows), more=more)
    return fitting(console, partial(lay_out, search_sheet(result, rows), legend), _MINOR)


def write_search_csv(result: SearchResult, path: Path) -> None:
    """Write every configuration that was tried to ``path``; what is not known is empty."""
    write_rows(path, search_columns(result), search_rows(result))


def search_columns(result: SearchResult) -> list[str]:
    """Return the columns of :func:`search_rows`: the axes, then what is known, in SI units."""
    return [*result.problem.space.axes, "workload", "unit", *_ROW]


def search_rows(result: SearchResult) -> list[list[object]]:
    """List every configuration that was tried; what is not known is ``None``."""
    workload, unit = result.problem.space.workload, result.unit
    return [[*row.values, workload, unit, *cells_at(row, _ROW)] for row in result.rows]


_ROLES = (
    "is_baseline", "is_best", "in_set", "on_front", "is_knee", "is_feasible", "is_capped",
)  # fmt: skip
_ROW: Columns = {
    **{name: name for name in ("num_valid", "num_invalid", "reason")},
    "power_w": "found.figures.power_w",
    "temperature_c": "found.figures.temperature_c",
    "memory_b": "found.figures.memory_b",
    "energy_per_unit_j": "found.figures.energy_j",
    "energy_per_unit_u_j": "found.figures.energy_u_j",
    "time_per_unit_s": "found.figures.time_s",
    "time_per_unit_u_s": "found.figures.time_u_s",
    "retention": "found.figures.retention",
    "retention_u": "found.figures.retention_u",
    **interval_columns("energy_ratio", "found.energy_ratio"),
    **interval_columns("time_ratio", "found.time_ratio"),
    **interval_columns("cost_ratio", "found.cost_ratio"),
    **{name: name for name in _ROLES},
    "config_hash": "configuration.config_hash",
}


def _line(result: SearchResult, row: SearchRow, energy: float, time: float) -> Line:
    num = count(row.num_valid, row.num_invalid)
    axes = [
        _value(name, value, row)
        for name, value in zip(result.problem.space.axes, row.values, strict=True)
    ]
    if row.found is None:
        why = "power-capped" if row.is_capped else row.reason.partition(":")[0]
        num_empty = 4 + result.has_quality - _is_energy(result)
        cells = [*axes, "", why, *[""] * num_empty, num]
    else:
        cells = [*axes, *_cells(result, row, row.found, energy, time), num]
    return Line(
        mark=("*" if row.is_best else "=" if row.in_set else " ") + _second_mark(result, row),
        cells=tuple(cells),
        is_best=row.is_best,
        in_set=row.in_set,
        has_figures=row.found is not None,
    )


def _second_mark(result: SearchResult, row: SearchRow) -> str:
    if row.is_capped:
        return "^"
    if row.found is not None and not row.is_feasible:
        return "!"
    if len(result.answer.front) == 1:
        return " "
    return "k" if row.is_knee else "f" if row.on_front else " "


def _value(name: str, value: KnobValue, row: SearchRow) -> str:
    if value is not None:
        return f"{value}"
    return "baseline" if row.is_baseline and name == "sm_clock_mhz" else "default"


def _cells(
    result: SearchResult, row: SearchRow, found: Compared, energy: float, time: float
) -> list[str]:
    figures = found.figures
    shares = [(found.energy_ratio, -1), (found.time_ratio, 1)]
    kept = figures.retention
    return [
        f"{figures.power_w:.0f}",
        _pm(figures.energy_j * energy, figures.energy_u_j * energy),
        _pm(figures.time_s * time, figures.time_u_s * time),
        *(() if _is_energy(result) else (_cost(found.cost_ratio, is_one=row.is_baseline),)),
        *(_change(share, sign, is_zero=row.is_baseline) for share, sign in shares),
        *([f"{100 * kept:.1f}"] if result.has_quality and kept is not None else []),
    ]


def _pm(value: float, u: float) -> str:
    if not u > 1e-6 * value:
        return f"{value:.{decimals_for(value, digits=5)}f}"
    decimals = decimals_for(u)
    return f"{value:.{decimals}f} {PLUS_MINUS} {u:.{decimals}f}"


def _cost(ratio: Interval | None, *, is_one: bool) -> str:
    """Write a cost as a percentage of the baseline's."""
    if ratio is None:
        return "no bound"
    return "100" if is_one else _pm(100 * ratio.value, 100 * ratio.half_width)


def _change(ratio: Interval, sign: int, *, is_zero: bool) -> str:
    """Write a ratio to the baseline as what is added to it, or saved, in percent."""
    if is_zero:
        return "0"
    half = 100 * ratio.half_width
    decimals = min(max(decimals_for(half, digits=1), 1), 2) if half < 10 else 0
    return f"{100 * sign * (ratio.value - 1):+.{decimals}f} {PLUS_MINUS} {half:.{decimals}f}"


def _is_energy(result: SearchResult) -> bool:
    """Whether the objective is energy alone, so that its column would say what another says."""
    objective = result.problem.objective
    return not (objective.time_exponent or objective.quality_exponent)
