"""Measurements in words, and as a table in the vocabulary of the tracking stores."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from joulelab.analysis.quantities import PLUS_MINUS, quantity, uncertain
from joulelab.core.device import board_words
from joulelab.core.energy import LEVEL, relative_half_width
from joulelab.core.measurement import Measurement
from joulelab.core.record import Record
from joulelab.tracking.vocabulary import metrics, params, tags

if TYPE_CHECKING:  # pandas takes half a second
    import pandas as pd

SENSOR_CLASS = 0.05
"""Calibration class of a power sensor: how far two boards may be apart (arXiv:2312.02741)."""

_SENSOR = f"{PLUS_MINUS}{SENSOR_CLASS:.0%}"

NOT_HARDWARE_NOTE = (
    "These numbers do not come from the hardware that they name: the devices were simulated or "
    "replayed from a recording."
)


def report_lines(records: Sequence[Record]) -> list[str]:
    """Describe the phases of one trial, one block of lines for each."""
    first = records[0].measurement
    point = first.configuration.point
    lines = [
        f"{first.configuration.workload} on {board_words(first.device)} ({first.device.uuid}) at "
        + ("the driver's own clocks" if point.is_default else point.label)
    ]
    for record in records:
        measurement = record.measurement
        lines.append(f"{measurement.phase}:")
        rows = _rows(measurement) if measurement.valid else _faults(measurement)
        lines += [f"  {name:10}{value}" for name, value in rows]
    valid = [record.measurement for record in records if record.measurement.valid]
    if any(measurement.recording for measurement in valid):
        lines.append(
            "A recording is one observation, however often it is played, and does not say how such "
            "scatter; a sweep of recordings does. Joules and watts carry the sensor's own "
            f"{_SENSOR} between boards."
        )
    elif valid:
        lines.append(
            f"{PLUS_MINUS} is the standard uncertainty of the reading. Joules and watts carry the "
            f"sensor's own {_SENSOR} between boards besides; it cancels in ratios on one board."
        )
    return lines


def _rows(measurement: Measurement) -> list[tuple[str, str]]:
    unit, windows = measurement.unit, measurement.windows
    energy_j, u_j = measurement.energy_per_unit_j, measurement.energy_per_unit_u_j
    time_s, u_s = measurement.time_per_unit_s, measurement.time_per_unit_u_s
    taken = "1 window" if len(windows) == 1 else f"{len(windows)} windows"
    interval = f"; {LEVEL:.0%} interval {PLUS_MINUS}{relative_half_width(windows):.2%} from {taken}"
    if measurement.recording:  # windows of one observation agree, whatever it is off by
        u_j, u_s, interval = 0.0, 0.0, ""
    relative_u = ((u_j / energy_j) ** 2 + (u_s / time_s) ** 2) ** 0.5
    edp_js = measurement.edp_js
    rows = [
        (
            "energy",
            f"{uncertain(energy_j, u_j, f'J/{unit}')} ({_SENSOR} sensor class{interval}, "
            f"{windows[0].source})",
        ),
        (
            "power",
            f"{uncertain(measurement.power_w, u_j / time_s, 'W')} "
            f"({_SENSOR} sensor class){_idle(measurement)}",
        ),
        ("time", uncertain(time_s, u_s, f"s/{unit}")),
        ("EDP", uncertain(edp_js, relative_u * edp_js, f"Js/{unit}^2")),
    ]
    dynamic_j = measurement.dynamic_energy_per_unit_j
    if dynamic_j is not None:
        rows.insert(1, ("dynamic", f"{quantity(dynamic_j, f'J/{unit}')} above idle"))
    rows += _boards(measurement)
    return [*rows, *_figures(measurement), ("device", _conduct(measurement)), ("valid", "yes")]


def _boards(measurement: Measurement) -> list[tuple[str, str]]:
    """What each of several boards used of a unit of work, a row for each."""
    energies = [(board, board.known_energy_j) for board in measurement.boards]
    return [
        (
            f"GPU {index}",
            f"{quantity(energy_j / measurement.work, f'J/{measurement.unit}')} "
            f"({board.device.uuid})",
        )
        for index, (board, energy_j) in enumerate(energies)
        if energy_j is not None
    ]


def _figures(measurement: Measurement) -> list[tuple[str, str]]:
    """What the workload says, a row for each quantity: the first word of a name, of all GPUs."""
    groups = groupby(measurement.figures, key=lambda figure: _quantity(figure[0]))
    return [
        (name, ", ".join(f"{name} {value:.4g}" for name, value in group)) for name, group in groups
    ]


def _quantity(name: str) -> str:
    return name.rpartition(".")[2].partition("_")[0]


def _faults(measurement: Measurement) -> list[tuple[str, str]]:
    rows = [("INVALID", str(finding)) for finding in measurement.findings]
    seen = _conduct(measurement)
    return [*rows, ("device", seen)] if seen else rows


def _idle(measurement: Measurement) -> str:
    idle_w = measurement.idle_power_w
    return "" if idle_w is None else f", {idle_w:.1f} W idle at the same clock"


def _conduct(measurement: Measurement) -> str:
    observed = measurement.observed
    parts = []
    if observed.sm_clock_mhz is not None:
        parts.append(f"SM {observed.sm_clock_mhz:g} MHz")
    if observed.clock_residency is not None:
        parts.append(f"held {observed.clock_residency:.0%} of the time")
    if observed.power_cap_share:
        parts.append(f"power-capped {observed.power_cap_share:.0%}")
    if observed.thermal_share:
        parts.append(f"heat-throttled {observed.thermal_share:.0%}")
    if observed.temperature_start_c is not None and observed.temperature_stop_c is not None:
        parts.append(f"{observed.temperature_start_c:g} to {observed.temperature_stop_c:g} C")
    if observed.warmup_s is not None:
        steady = "steady" if observed.warmup_steady else "NOT steady"
        parts.append(f"{steady} after {observed.warmup_s:.0f} s")
    if observed.sampler_share is not None:
        parts.append(f"sampling took {observed.sampler_share:.2%} of a core")
    if observed.host_disturbed_share:
        parts.append(f"others slowed the host's core {observed.host_disturbed_share:.0%}")
    return ", ".join(parts)


def measurements_frame(measurements: Sequence[Measurement]) -> "pd.DataFrame":
    """List ``measurements``, valid and invalid, with one row each.

    Columns are what was requested (``sm_clock_mhz``, ``batch``, ...), what was measured
    (``energy_per_unit_j``, ``observed.sm_clock_mhz``, ...) and what identifies it
    (``device.uuid``, ``valid``, ``invalid_reasons``, ...). A number that an invalid measurement
    does not have, or that was not read, is missing and not 0.
    """
    import pandas as pd

    rows = [
        {
            "study": m.study,
            **params(m),
            **metrics(m),
            **tags(m),  # as text; those below have a type of their own
            **{name: getattr(m, name) for name in ("attempt", "repeat", "sentinel", "valid")},
            "provenance.started_at": pd.Timestamp(m.provenance.started_at),
        }
        for m in measurements
    ]
    return pd.DataFrame(rows)
