"""Baselines for a reader: the table for a terminal, and what each workload draws as a picture."""

from collections.abc import Collection, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.table import Table

from joulelab.analysis.baseline import BaselineRow
from joulelab.analysis.figure_file import save_png_and_svg
from joulelab.analysis.quantities import PLUS_MINUS, quantity, uncertain
from joulelab.analysis.style import CAPPED, CURVE, INK, MUTED, RC, tidy
from joulelab.analysis.table import numbers, quiet_table
from joulelab.core.configuration import KnobValue


def baseline_table(rows: Sequence[BaselineRow]) -> Table:
    """Lay out ``rows`` for a terminal of 100 columns; knobs that never vary are in the title."""
    device = ", ".join(sorted({row.device for row in rows}))
    table = quiet_table(
        "workload",
        *numbers("clock\nMHz", "power\nW", "idle\nW", "energy", "time", "n"),
        title=f"At the driver's own clocks on {device}",
        caption="± is the standard uncertainty (k = 1) from repeats and readings; the sensor's "
        "own class, some 5 % between boards, is common to all rows and not in it.",
        pad_edge=True,
    )
    for row in rows:
        table.add_row(*_cells(row, varying_knobs(rows, row.workload)))
    return table


def row_name(row: BaselineRow, varying: Collection[str]) -> str:
    """Name a row by workload, phase and the knobs that set it apart, ``"llama decode bf16"``."""
    return " ".join(part for part in (_program(row), _knobs(row, varying)) if part)


def varying_knobs(rows: Sequence[BaselineRow], workload: str) -> frozenset[str]:
    """Return the knobs that differ between the rows of a workload."""
    known = [dict(row.knobs) for row in rows if row.workload == workload]
    names = {name for knobs in known for name in knobs}
    return frozenset(n for n in names if len({str(knobs.get(n, "")) for knobs in known}) > 1)


def _cells(row: BaselineRow, varying: frozenset[str]) -> tuple[str, ...]:
    name = f"{_program(row)} [dim]{_knobs(row, varying)}[/]"
    number = f"{row.num_valid}" + (f" [red](+{row.num_invalid} invalid)[/]" * bool(row.num_invalid))
    if row.energy_per_unit_j is None or row.time_per_unit_s is None:
        return (name, "", "", "", f"[red]{', '.join(row.reasons)}[/]", "", number)
    return (
        name,
        _number(row.sm_clock_mhz),
        f"{_number(row.power_w)} ± {row.power_u_w:.1f}",
        _number(row.idle_power_w),
        _energy(row.energy_per_unit_j, row.energy_per_unit_u_j or 0.0, row.unit),
        _time(row.time_per_unit_s, row.unit),
        number,
    )


def _program(row: BaselineRow) -> str:
    return row.workload if row.phase == row.workload else f"{row.workload} {row.phase}"


def _knobs(row: BaselineRow, varying: Collection[str]) -> str:
    return " ".join(_knob(name, value) for name, value in row.knobs if name in varying)


def _energy(value_j: float, u_j: float, unit: str) -> str:
    """Write energy per unit of work, its uncertainty as at least 0.01 % of it."""
    return uncertain(value_j, max(u_j, 1e-4 * value_j), f"J/{unit}")


def _time(value_s: float, unit: str) -> str:
    return quantity(value_s, f"s/{unit}")


def _knob(name: str, value: KnobValue) -> str:
    return value if isinstance(value, str) else f"{name}={value}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


COVERAGE = 2
"""Bars are expanded uncertainties with this coverage factor."""


def save_baseline_plot(rows: Sequence[BaselineRow], stem: Path) -> tuple[Path, ...]:
    """Write the picture as ``stem``.png and ``stem``.svg; returns no paths if nothing is valid."""
    valid = [row for row in rows if row.power_w is not None]
    if not valid:
        return ()
    with mpl.rc_context(RC):
        figure = _figure(valid)
    return save_png_and_svg(figure, stem)


def _figure(rows: Sequence[BaselineRow]) -> Figure:
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    devices = ", ".join(sorted({row.device for row in rows}))
    tidy(axes, f"Power at the driver's own clocks on {devices}", "", "W")
    places = range(len(rows))
    powers_w = [row.power_w or 0.0 for row in rows]
    expanded_w = [COVERAGE * (row.power_u_w or 0.0) for row in rows]
    idle_w = [row.idle_power_w or 0.0 for row in rows]
    axes.barh(places, powers_w, color=CURVE, height=0.66, label="under load")
    axes.barh(places, idle_w, color=CAPPED, height=0.66, label="at rest")
    axes.errorbar(powers_w, places, xerr=expanded_w, fmt="none", ecolor=INK, elinewidth=0.9)
    for place, row in enumerate(rows):
        axes.annotate(
            _cost(row), (powers_w[place] + expanded_w[place], place), xytext=(6, 0),
            textcoords="offset points", va="center", color=MUTED, fontsize=8,
        )  # fmt: skip
    names = [row_name(row, varying_knobs(rows, row.workload)) for row in rows]
    axes.set_yticks(places, names, color=INK)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.75 * max(powers_w))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=8)
    axes.annotate(
        f"bars: {PLUS_MINUS} k={COVERAGE}; costs: {PLUS_MINUS} standard uncertainty", (0, 1),
        xycoords="axes fraction", xytext=(0, 5), textcoords="offset points", color=MUTED,
        fontsize=8.5,
    )  # fmt: skip
    return figure


def _cost(row: BaselineRow) -> str:
    if row.energy_per_unit_j is None or row.time_per_unit_s is None:
        return ""
    energy = _energy(row.energy_per_unit_j, row.energy_per_unit_u_j or 0.0, row.unit)
    return f"{energy} in {_time(row.time_per_unit_s, row.unit)}"
