"""What a sweep found as lines of text, for terminal and page, and as CSV in SI units."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import inf, isinf

from rich.table import Column, Table

from joulelab.analysis.compared import Figures
from joulelab.analysis.listing import Line, Listing, Quantity
from joulelab.analysis.quantities import PLUS_MINUS, common_scale
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow, Values, cost_of
from joulelab.analysis.table import Columns, Frame, frame, interval_columns, plus_minus, quiet_table
from joulelab.analysis.wording import replay_words
from joulelab.core.additive import Interval
from joulelab.objectives import ED2P, EDP, ENERGY, OBJECTIVES, TIME

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
            mark=_place(row) + ("^" if row.power_capped else " "),
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
    if phase.is_replayed:
        lines.append(replay_words(phase.rows, is_open=phase.is_open))
    if any(row.num_invalid for row in phase.rows):
        lines.append("n: valid measurements, minus those that broke the validity contract")
    lost = Counter(row.reasons[:1] for row in phase.rows if row.figures is None)
    if lost:
        named = ", ".join(f"{num} {' '.join(why) or 'not compared'}" for why, num in lost.items())
        lines.append(f"{lost.total()} points have no valid measurement: {named}")
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


def _quantities(phase: PhaseResult, shown: Sequence[SweepRow]) -> list[Quantity[Measured]]:
    figures = [row.figures for row in shown if row.figures is not None]
    aim = OBJECTIVES[phase.objective]
    costs = dict.fromkeys((ENERGY, TIME, EDP, ED2P, aim))
    columns = [_column(*cost_of(cost, phase.unit), figures) for cost in costs]
    return [
        Quantity("power", "W", lambda m: f"{m[1].power_w:.1f}"),
        *columns,
        Quantity("energy saved", "%", lambda m: _share(m[1].saving, m[0])),
        Quantity("time added", "%", lambda m: _share(m[1].slowdown, m[0])),
    ]


def _column(name: str, unit: str, values: Values, figures: Sequence[Figures]) -> Quantity[Measured]:
    """Write a quantity with the prefix and the decimals that suit all ``figures``.

    Energy and time have their uncertainties beside them.
    """
    found = [values(each) for each in figures]
    has_u = name in (ENERGY.label, TIME.label)
    uncertainties = [u for _, u in found if has_u]
    factor, prefix, decimals = common_scale([value for value, _ in found], uncertainties)

    def cell(measured: Measured) -> str:
        value, u = values(measured[1])
        return plus_minus(value * factor, u * factor if has_u else inf, decimals)

    return Quantity(name, f"{prefix}{unit}", cell)


def _place(row: SweepRow) -> str:
    return "*" if row.is_recommended else "<" if row.is_lowest else "=" if row.in_set else " "


def clock_words(row: SweepRow) -> str:
    """Write the clock of a row, or its whole point where it sets more than that."""
    point = row.point
    if point.is_default:
        seen = row.observed_clock_mhz
        return "default" if seen is None else f"default ({seen:.0f})"
    only_clock = point.mem_clock_mhz is None and point.power_limit_w is None
    return f"{point.sm_clock_mhz}" if only_clock else point.label


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
