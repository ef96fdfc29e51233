"""The table of baselines for a terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from joulelab.analysis.baseline import BaselineRow
from joulelab.analysis.quantities import quantity, uncertain
from joulelab.core.configuration import KnobValue


def baseline_table(rows: Sequence[BaselineRow]) -> Table:
    """Lay out ``rows`` for a terminal of 100 columns; knobs that never vary are in the title."""
    device = ", ".join(sorted({row.device for row in rows}))
    table = Table(
        title=f"At the driver's own clocks on {device}",
        title_justify="left",
        caption="± is the standard uncertainty (k = 1) from repeats and readings; the sensor's "
        "own class, some 5 % between boards, is common to all rows and not in it.",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("workload")
    for head in ("clock\nMHz", "power\nW", "idle\nW", "energy", "time", "n"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, _varying(rows, row.workload)))
    return table


def _varying(rows: Sequence[BaselineRow], workload: str) -> frozenset[str]:
    """Return the knobs that differ between the rows of a workload."""
    known = [dict(row.knobs) for row in rows if row.workload == workload]
    names = {name for knobs in known for name in knobs}
    return frozenset(n for n in names if len({str(knobs.get(n, "")) for knobs in known}) > 1)


def _cells(row: BaselineRow, varying: frozenset[str]) -> tuple[str, ...]:
    knobs = " ".join(_knob(name, value) for name, value in row.knobs if name in varying)
    phase = "" if row.phase == row.workload else f" {row.phase}"
    name = f"{row.workload}{phase} [dim]{knobs}[/]"
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


def _energy(value_j: float, u_j: float, unit: str) -> str:
    """Write energy per unit of work, its uncertainty as at least 0.01 % of it."""
    return uncertain(value_j, max(u_j, 1e-4 * value_j), f"J/{unit}")


def _time(value_s: float, unit: str) -> str:
    return quantity(value_s, f"s/{unit}")


def _knob(name: str, value: KnobValue) -> str:
    return value if isinstance(value, str) else f"{name}={value}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
