"""What workloads cost at one operating point: a table of configurations with error bars."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from math import hypot

from rich.table import Table

from joulelab.analysis.quantities import quantity, uncertain
from joulelab.analysis.table import Columns, numbers, quiet_table
from joulelab.analysis.wording import varying
from joulelab.core.configuration import KnobValue
from joulelab.core.device import board_words
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.statistics import mean_of, mean_u


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRow:
    """One phase of one configuration on one product, averaged over its valid repeats.

    Uncertainties are standard ones (k = 1): the larger of the scatter of the repeats and of
    what the readings alone explain. The sensor's own class (some 5 % between boards) is not
    in them. Fields without a valid measurement are ``None``.
    """

    device: str
    workload: str
    knobs: tuple[tuple[str, KnobValue], ...]
    phase: str
    unit: str
    num_valid: int
    num_invalid: int
    reasons: tuple[str, ...]
    power_w: float | None
    power_u_w: float | None
    # Energy per unit of work, in joules (gross, idle power included).
    energy_per_unit_j: float | None
    energy_per_unit_u_j: float | None
    time_per_unit_s: float | None
    time_per_unit_u_s: float | None
    idle_power_w: float | None  # idle power in the same process at the same clock, in watts
    sm_clock_mhz: float | None
    temperature_c: float | None  # GPU temperature at the end, in degrees Celsius
    # Share of the time (0 to 1) that the power cap held the clocks down.
    power_cap_share: float | None
    memory_power_w: float | None
    samples_over_counter: float | None  # energy from the power samples over that from the counter


COLUMNS: Columns = {field.name: field.name for field in fields(BaselineRow)}
"""Columns of the CSV, in SI units; what is not known is empty, knobs are ``name=value``."""


def baseline_rows(measurements: Sequence[Measurement]) -> tuple[BaselineRow, ...]:
    """Average ``measurements`` by product, configuration and phase, in the order of workloads."""
    groups = grouped_by(
        measurements, lambda m: (m.device.name, m.configuration.config_hash, m.phase)
    )
    return tuple(sorted(map(_row, groups.values()), key=_order))


def _order(row: BaselineRow) -> tuple[str, list[str]]:
    return row.workload, [f"{v:015}" if isinstance(v, int) else str(v) for _, v in row.knobs]


def _row(group: Sequence[Measurement]) -> BaselineRow:
    first, valid = group[0], [m for m in group if m.valid]
    reasons = sorted({finding.reason for m in group for finding in m.findings})
    power_w, energy_j = [m.power_w for m in valid], [m.energy_per_unit_j for m in valid]
    time_s = [m.time_per_unit_s for m in valid]
    return BaselineRow(
        device=board_words(first.device),
        workload=first.configuration.workload,
        knobs=first.configuration.knobs,
        phase=first.phase,
        unit=first.unit,
        num_valid=len(valid),
        num_invalid=len(group) - len(valid),
        reasons=tuple(reasons),
        power_w=mean_of(power_w),
        power_u_w=_u(power_w, [m.energy_per_unit_u_j / m.time_per_unit_s for m in valid]),
        energy_per_unit_j=mean_of(energy_j),
        energy_per_unit_u_j=_u(energy_j, [m.energy_per_unit_u_j for m in valid]),
        time_per_unit_s=mean_of(time_s),
        time_per_unit_u_s=_u(time_s, [m.time_per_unit_u_s for m in valid]),
        idle_power_w=mean_of(m.idle_power_w for m in valid),
        sm_clock_mhz=mean_of(m.observed.sm_clock_mhz for m in valid),
        temperature_c=mean_of(m.observed.temperature_stop_c for m in valid),
        power_cap_share=mean_of(m.observed.power_cap_share for m in valid),
        memory_power_w=mean_of(m.observed.memory_power_w for m in valid),
        samples_over_counter=mean_of(_samples_over_counter(m) for m in valid),
    )


def _u(values: Sequence[float], stated: Sequence[float]) -> float | None:
    """Return the larger of the repeats' scatter and of their stated uncertainties."""
    if not values:
        return None
    read_u = hypot(*stated) / len(stated)
    return max(mean_u(values), read_u)


def _samples_over_counter(measurement: Measurement) -> float | None:
    counted_j = sum(window.energy_j for window in measurement.windows)
    sampled_j = measurement.observed.samples_energy_j
    return None if sampled_j is None else sampled_j / counted_j


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


def row_name(row: BaselineRow, named: Collection[str]) -> str:
    """Name a row by workload, phase and the knobs that set it apart, ``"llama decode bf16"``."""
    return " ".join(part for part in (_program(row), _knobs(row, named)) if part)


def varying_knobs(rows: Sequence[BaselineRow], workload: str) -> frozenset[str]:
    """Return the knobs that differ between the rows of a workload."""
    return frozenset(varying([dict(row.knobs) for row in rows if row.workload == workload]))


def _cells(row: BaselineRow, named: Collection[str]) -> tuple[str, ...]:
    name = f"{_program(row)} [dim]{_knobs(row, named)}[/]"
    number = f"{row.num_valid}" + (f" [red](+{row.num_invalid} invalid)[/]" * bool(row.num_invalid))
    if row.energy_per_unit_j is None or row.time_per_unit_s is None:
        return (name, "", "", "", f"[red]{', '.join(row.reasons)}[/]", "", number)
    return (
        name,
        rounded(row.sm_clock_mhz),
        f"{rounded(row.power_w)} ± {row.power_u_w:.1f}",
        rounded(row.idle_power_w),
        well_known(row.energy_per_unit_j, row.energy_per_unit_u_j, f"J/{row.unit}"),
        quantity(row.time_per_unit_s, f"s/{row.unit}"),
        number,
    )


def _program(row: BaselineRow) -> str:
    return row.workload if row.phase == row.workload else f"{row.workload} {row.phase}"


def _knobs(row: BaselineRow, named: Collection[str]) -> str:
    return " ".join(
        value if isinstance(value, str) else f"{name}={value}"
        for name, value in row.knobs
        if name in named
    )


def cost(row: BaselineRow) -> str:
    """Write what a row costs, ``"1.20 ± 0.03 J/token in 2 ms/token"``; ``""`` without figures."""
    if row.energy_per_unit_j is None or row.time_per_unit_s is None:
        return ""
    energy = well_known(row.energy_per_unit_j, row.energy_per_unit_u_j, f"J/{row.unit}")
    return f"{energy} in {quantity(row.time_per_unit_s, f's/{row.unit}')}"


def well_known(value: float, u: float | None, unit: str) -> str:
    """Write a quantity with its uncertainty, at least 0.01 % of it."""
    return uncertain(value, max(u or 0.0, 1e-4 * value), unit)


def rounded(value: float | None) -> str:
    """Write a whole number; ``""`` for what is not known."""
    return "" if value is None else f"{value:.0f}"
