"""What workloads cost at one operating point: a table of configurations with error bars."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import hypot
from pathlib import Path

from joulelab.analysis.compared import mean_of
from joulelab.analysis.table import write_rows
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.statistics import mean_u


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRow:
    """One phase of one configuration on one product, averaged over its valid repeats.

    Uncertainties are standard ones (k = 1): the larger of the scatter of the repeats and of
    what the readings alone explain. The sensor's own class (some 5 % between boards) is not
    in them. Fields without a valid measurement are ``None``.

    Attributes:
        energy_per_unit_j: Energy per unit of work, in joules (gross, idle power included).
        idle_power_w: Idle power in the same process at the same clock, in watts.
        temperature_c: GPU temperature at the end, in degrees Celsius.
        power_cap_share: Share of the time (0 to 1) that the power cap held the clocks down.
        samples_over_counter: Energy from the power samples over that from the counter.
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
    energy_per_unit_j: float | None
    energy_per_unit_u_j: float | None
    time_per_unit_s: float | None
    time_per_unit_u_s: float | None
    idle_power_w: float | None
    sm_clock_mhz: float | None
    temperature_c: float | None
    power_cap_share: float | None
    memory_power_w: float | None
    samples_over_counter: float | None


COLUMNS = tuple(field.name for field in fields(BaselineRow))
"""Columns of the CSV, in SI units; what is not known is empty."""


def baseline_rows(measurements: Sequence[Measurement]) -> tuple[BaselineRow, ...]:
    """Average ``measurements`` by product, configuration and phase, in the order of workloads."""
    groups: defaultdict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for m in measurements:
        groups[m.device.name, m.configuration.config_hash, m.phase].append(m)
    rows = [_row(group) for group in groups.values()]
    return tuple(sorted(rows, key=_order))


def write_baseline_csv(measurements: Sequence[Measurement], path: Path) -> None:
    """Write :func:`baseline_rows` to ``path``; knobs become ``name=value`` pairs."""
    rows = baseline_rows(measurements)
    write_rows(path, COLUMNS, ([_cell(getattr(row, name)) for name in COLUMNS] for row in rows))


def _order(row: BaselineRow) -> tuple[str, list[str]]:
    """Sort rows by workload and then by their knobs, numbers by size."""
    return row.workload, [f"{v:015}" if isinstance(v, int) else str(v) for _, v in row.knobs]


def _row(group: Sequence[Measurement]) -> BaselineRow:
    first, valid = group[0], [m for m in group if m.valid]
    reasons = sorted({finding.reason for m in group for finding in m.findings})
    return BaselineRow(
        device=first.device.name,
        workload=first.configuration.workload,
        knobs=first.configuration.knobs,
        phase=first.phase,
        unit=first.unit,
        num_valid=len(valid),
        num_invalid=len(group) - len(valid),
        reasons=tuple(reasons),
        power_w=mean_of([m.power_w for m in valid]),
        power_u_w=_u(
            [m.power_w for m in valid], [m.energy_per_unit_u_j / m.time_per_unit_s for m in valid]
        ),
        energy_per_unit_j=mean_of([m.energy_per_unit_j for m in valid]),
        energy_per_unit_u_j=_u(
            [m.energy_per_unit_j for m in valid], [m.energy_per_unit_u_j for m in valid]
        ),
        time_per_unit_s=mean_of([m.time_per_unit_s for m in valid]),
        time_per_unit_u_s=_u(
            [m.time_per_unit_s for m in valid], [m.time_per_unit_u_s for m in valid]
        ),
        idle_power_w=mean_of([m.idle_power_w for m in valid]),
        sm_clock_mhz=mean_of([m.observed.sm_clock_mhz for m in valid]),
        temperature_c=mean_of([m.observed.temperature_stop_c for m in valid]),
        power_cap_share=mean_of([m.observed.power_cap_share for m in valid]),
        memory_power_w=mean_of([m.observed.memory_power_w for m in valid]),
        samples_over_counter=mean_of([_samples_over_counter(m) for m in valid]),
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


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(
            f"{item[0]}={item[1]}" if isinstance(item, tuple) else str(item) for item in value
        )
    return f"{value:.6g}" if isinstance(value, float) else value
