"""What a sweep found as lines of text, for terminal and page, and as CSV in SI units."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, si_scale
from joulelab.analysis.sweep import Figures, PhaseResult, SweepResult, SweepRow
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
from joulelab.objectives import ED2P, EDP, ENERGY, OBJECTIVES, TIME

_PHASE: Columns = {"workload": "workload", "phase": "phase", "device": "device_name"}
_ROW: Columns = {
    "sm_clock_mhz": "point.sm_clock_mhz",
    "mem_clock_mhz": "point.mem_clock_mhz",
    "power_limit_w": "point.power_limit_w",
    "observed_sm_clock_mhz": "observed_clock_mhz",
    **{name: name for name in ("power_cap_share", "num_valid", "num_invalid")},
}
_FIGURES = (
    "power_w", "energy_per_unit_j", "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s",
    "edp_js", "edp_u_js", "ed2p_js2", "ed2p_u_js2",
)  # fmt: skip
_COSTS: Columns = {
    **{name: f"figures.{name}" for name in _FIGURES},
    **interval_columns("saving", "figures.saving"),
    **interval_columns("slowdown", "figures.slowdown"),
}
_AIM: Columns = {"cost": "figures.cost", "cost_u": "figures.cost_u"}
COLUMNS = (
    *_PHASE, *_ROW, "reasons", *_COSTS, "is_recommended", "is_lowest", "in_set", "on_front",
    "unit", "objective", *_AIM,
)  # fmt: skip
"""Columns of every CSV, in SI units; shares are 0 to 1; ``cost`` is the objective's value. What the
workload reported follows them."""


def sheet(phase: PhaseResult, rows: Sequence[SweepRow]) -> Sheet:
    """Put ``rows`` of ``phase`` into words, with SI prefixes that suit them."""
    columns = _columns(phase, rows)
    return Sheet(
        heads=(
            ("clock", "MHz"),
            ("power", "W"),
            *((column.name, column.unit) for column in columns),
            ("energy saved", "%"),
            ("time added", "%"),
            ("n", ""),
        ),
        lines=tuple(_line(phase, row, columns) for row in rows),
    )


def selection(phase: PhaseResult, max_rows: int | None) -> list[SweepRow]:
    """Choose rows that tell the story in at most ``max_rows``; ``None`` takes all.

    They are the default, the recommended point, the lowest, the ends of the confidence set, both
    ends of the sweep, and even steps between.
    """
    rows = phase.rows
    if max_rows is None or len(rows) <= max_rows:
        return list(rows)
    members = [i for i, row in enumerate(rows) if row.point.label in phase.members]
    marked = {phase.recommended, phase.lowest}
    named = [i for i, r in enumerate(rows) if r.point.is_default or r.point.label in marked]
    kept = {0, len(rows) - 1, *named, *members[:1], *members[-1:]}
    others = [i for i, row in enumerate(rows) if i not in kept and row.figures is not None]
    num = min(max(max_rows - len(kept), 0), len(others))
    kept |= {others[(2 * k + 1) * len(others) // (2 * num)] for k in range(num)}
    return [rows[i] for i in sorted(kept)]


def fitting_table(
    phase: PhaseResult, console: Console, *, max_rows: int | None = 20, more: str = ""
) -> Table:
    """Lay out a phase as wide as ``console`` allows: less wanted columns go, never digits.

    Rows are those of :func:`selection`; ``more`` says how to see all.
    """
    shown = selection(phase, max_rows)
    caption = legend(phase, num_shown=len(shown), more=more)
    return fitting(
        console, partial(lay_out, sheet(phase, shown), caption), ("ED2P", "EDP", "power")
    )


def legend(phase: PhaseResult, *, num_shown: int, more: str = "") -> list[str]:
    """Say what the marks and columns mean, and what is not shown."""
    aim = OBJECTIVES[phase.objective].label
    lines = [
        f"* recommended: {_rule(phase)}",
        f"< lowest {aim}   = statistically indistinguishable from it ({phase.level:.0%})   "
        "^ throttled by the power cap",
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; "
        f"{phase.level:.0%} interval of what is saved and added",
    ]
    if any(row.num_invalid for row in phase.rows):
        lines.append("n: valid measurements, minus those that broke the validity contract")
    lost = Counter(row.reasons[:1] for row in phase.rows if row.figures is None)
    if lost:
        named = ", ".join(f"{num} {' '.join(why) or 'not compared'}" for why, num in lost.items())
        lines.append(f"{lost.total()} points have no valid measurement: {named}")
    if num_shown < len(phase.rows):
        lines.append(f"{num_shown} of {len(phase.rows)} points are shown{more and f'; {more}'}")
    return lines


def reported_table(phase: PhaseResult) -> Table | None:
    """Lay out what the workload reported of its own work over the points; ``None`` for nothing."""
    rows = [row for row in selection(phase, 6) if row.reported]
    if not rows:
        return None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), title="reported by the workload")
    table.add_column("")
    for row in rows:
        table.add_column(row.point.label, justify="right")
    for name in dict.fromkeys(name for row in rows for name, _ in row.reported):
        values = [dict(row.reported).get(name) for row in rows]
        table.add_row(name, *("" if value is None else f"{value:.4g}" for value in values))
    return table


def write_csv(result: SweepResult, path: Path) -> None:
    """Write every operating point of every phase to ``path``; what is not known is empty."""
    write_rows(path, columns(result), sweep_rows(result))


def columns(result: SweepResult) -> tuple[str, ...]:
    """Name the columns of :func:`sweep_rows`."""
    return (*COLUMNS, *(f"figures.{name}" for name in _reported(result)))


def sweep_rows(result: SweepResult) -> list[list[object]]:
    """List every operating point of every phase; what is not known is ``None``."""
    names = _reported(result)
    return [
        [*_csv_row(phase, row), *map(dict(row.reported).get, names)]
        for phase in result.phases
        for row in phase.rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of quantities: value and, where it is shown, standard uncertainty of a row."""

    name: str
    unit: str
    factor: float
    decimals: int
    values: Callable[[Figures], tuple[float, float | None]]

    def cell(self, figures: Figures) -> str:
        value, u = self.values(figures)
        text = f"{value * self.factor:.{self.decimals}f}"
        if u is None:
            return text
        return f"{text} {PLUS_MINUS} {u * self.factor:.{self.decimals}f}"


def _columns(phase: PhaseResult, shown: Sequence[SweepRow]) -> list[_Column]:
    figures = [row.figures for row in shown if row.figures is not None]

    def column(
        name: str, unit: str, values: Callable[[Figures], tuple[float, float | None]]
    ) -> _Column:
        found = [values(f) for f in figures]
        factor, prefix = si_scale(value for value, _ in found)
        uncertainties = [u * factor for _, u in found if u]
        scaled = [value * factor for value, _ in found]
        decimals = (
            decimals_for(median(uncertainties))
            if uncertainties
            else decimals_for(max(scaled, default=1.0), digits=4)
        )
        return _Column(
            name=name, unit=f"{prefix}{unit}", factor=factor, decimals=decimals, values=values
        )

    per, aim = f"/{phase.unit}", OBJECTIVES[phase.objective]
    columns = [
        column("energy", f"J{per}", lambda f: (f.energy_per_unit_j, f.energy_per_unit_u_j)),
        column("time", f"s{per}", lambda f: (f.time_per_unit_s, f.time_per_unit_u_s)),
        column(EDP.label, EDP.unit, lambda f: (f.edp_js, None)),
        column(ED2P.label, ED2P.unit, lambda f: (f.ed2p_js2, None)),
    ]
    if aim not in (ENERGY, TIME, EDP, ED2P):
        columns.append(column(aim.label, aim.unit, lambda f: (f.cost, None)))
    return columns


def _line(phase: PhaseResult, row: SweepRow, columns: Sequence[_Column]) -> Line:
    label, figures = row.point.label, row.figures
    is_best, is_lowest = label == phase.recommended, label == phase.lowest
    place = "*" if is_best else "<" if is_lowest else "=" if label in phase.members else " "
    num = count(row.num_valid, row.num_invalid)
    if figures is None:
        why = row.reasons[0] if row.reasons else "not compared"
        cells = [_clock(row), "", why, *[""] * (len(columns) + 1), num]
    else:
        quantities = [column.cell(figures) for column in columns]
        shares = [_share(share, row) for share in (figures.saving, figures.slowdown)]
        cells = [_clock(row), f"{figures.power_w:.1f}", *quantities, *shares, num]
    return Line(
        mark=place + ("^" if row.power_capped else " "),
        cells=tuple(cells),
        is_best=is_best,
        in_set=label in phase.members,
        has_figures=figures is not None,
    )


def _clock(row: SweepRow) -> str:
    point = row.point
    if point.is_default:
        seen = row.observed_clock_mhz
        return "default" if seen is None else f"default ({seen:.0f})"
    only_clock = point.mem_clock_mhz is None and point.power_limit_w is None
    return f"{point.sm_clock_mhz}" if only_clock else point.label


def _share(interval: Interval | None, row: SweepRow) -> str:
    if interval is None or row.point.is_default:
        return "" if interval is None else "0"
    return f"{100 * interval.value:+.1f} {PLUS_MINUS} {100 * interval.half_width:.1f}"


def _rule(phase: PhaseResult) -> str:
    if phase.recommended is not None and phase.row(phase.recommended).point.is_default:
        return (
            f"the driver's default, which may have the lowest {OBJECTIVES[phase.objective].label}"
        )
    return "the fastest of those that are < or ="


def _reported(result: SweepResult) -> list[str]:
    names = (name for phase in result.phases for row in phase.rows for name, _ in row.reported)
    return list(dict.fromkeys(names))


def _csv_row(phase: PhaseResult, row: SweepRow) -> list[object]:
    label = row.point.label
    return [
        *cells_at(phase, _PHASE),
        *cells_at(row, _ROW),
        " ".join(row.reasons),
        *cells_at(row, _COSTS),
        int(label == phase.recommended),
        int(label == phase.lowest),
        int(label in phase.members),
        int(row.figures is not None and row.figures.on_front),
        phase.unit,
        phase.objective,
        *cells_at(row, _AIM),
    ]
