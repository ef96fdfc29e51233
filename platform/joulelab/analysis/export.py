"""What a sweep found as CSV, in SI units, for other programs."""

import csv
from pathlib import Path

from joulelab.analysis.sweep import Figures, PhaseResult, SweepResult, SweepRow
from joulelab.tracking.durable import whole_text

COLUMNS = (
    "workload", "phase", "device", "sm_clock_mhz", "mem_clock_mhz", "power_limit_w",
    "observed_sm_clock_mhz", "power_cap_share", "num_valid", "num_invalid", "reasons", "power_w",
    "energy_per_unit_j", "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s", "edp_js",
    "edp_u_js", "ed2p_js2", "ed2p_u_js2", "saving", "saving_low", "saving_high", "slowdown",
    "slowdown_low", "slowdown_high", "is_best", "in_set", "on_front", "unit",
)  # fmt: skip
"""Columns of the CSV, in SI units; shares are 0 to 1."""


def write_csv(result: SweepResult, path: Path) -> None:
    """Write every operating point of every phase to ``path``; what is not known is empty."""
    with whole_text(path) as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for phase in result.phases:
            writer.writerows(_csv_row(phase, row) for row in phase.rows)


def _csv_row(phase: PhaseResult, row: SweepRow) -> list[object]:
    point, label = row.point, row.point.label
    asked = [point.sm_clock_mhz, point.mem_clock_mhz, point.power_limit_w]
    seen = [row.observed_clock_mhz, row.power_cap_share, row.num_valid, row.num_invalid]
    named = [phase.workload, phase.phase, phase.device_name]
    return [
        *named,
        *asked,
        *seen,
        " ".join(row.reasons),
        *_csv_figures(row.figures),
        int(label == phase.best),
        int(label in phase.members),
        int(row.figures is not None and row.figures.on_front),
        phase.unit,
    ]


def _csv_figures(figures: Figures | None) -> list[float | None]:
    if figures is None:
        return [None] * 15
    f = figures
    values = [f.power_w, f.energy_per_unit_j, f.energy_per_unit_u_j, f.time_per_unit_s]
    values += [f.time_per_unit_u_s, f.edp_js, f.edp_u_js, f.ed2p_js2, f.ed2p_u_js2]
    shares = [
        part
        for share in (f.saving, f.slowdown)
        for part in ((share.value, share.low, share.high) if share else (None, None, None))
    ]
    return [*values, *shares]
