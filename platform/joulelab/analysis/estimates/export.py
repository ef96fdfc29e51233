"""Estimates as JSON, CSV or a page, in SI units, for other programs."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from joulelab.analysis.estimates.wording import bound_shares
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import (
    COMPONENTS,
    EnergySplit,
    Estimate,
    GroupEstimate,
    PhaseEstimate,
)
from joulelab.estimator.question import Cell
from joulelab.hardware.processor import Processor
from joulelab.provenance import joulelab_version
from joulelab.tracking.durable import check_file, write_whole

SCHEMA_VERSION = 1
"""Raised when a name or a meaning changes; new names do not raise it."""

CELL_COLUMNS = (
    "model", "device", "family", "tier", "num_devices", "precision", "batch", "mode", "clock_mhz",
    "power_limit_w", "phase", "work", "unit", "latency_s", "roofline_s", "energy_j", "compute_j",
    "memory_j", "static_j", "energy_per_unit_j", "time_per_unit_s", "edp_js", "power_w",
    "peak_power_w", "cap_w", "throttled_fraction", "memory_peak_b", "memory_capacity_b", "fits",
    "time_error", "energy_error", "problem",
)  # fmt: skip
"""Columns of the CSV of cells: one row for each phase, and one for a cell without an answer."""

GROUP_COLUMNS = (
    "model", "device", "precision", "batch", "mode", "phase", "group", "module", "kind",
    "operators", "count", "flop", "flop_by_pipe", "main_memory_b", "moved_b_by_level", "device_s",
    "elapsed_s", "roofline_s", "bound", "clock_mhz", "power_w", "energy_j", "compute_j",
    "memory_j", "static_j",
)  # fmt: skip
"""Columns of the CSV of groups: one row each, in the order in which they run."""


def to_json(cells: Sequence[Cell], *, with_groups: bool = True) -> str:
    """Write ``cells`` as one JSON object; names carry their units."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "joulelab_version": joulelab_version(),
        "estimates": [_cell(cell, with_groups=with_groups) for cell in cells],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def to_csv(cells: Sequence[Cell]) -> str:
    """Write a row for each phase of each cell; what is not known is empty."""
    return to_rows(CELL_COLUMNS, (row for cell in cells for row in _rows(cell)))


def groups_to_csv(cells: Sequence[Cell]) -> str:
    """Write a row for each group of each phase of each cell."""
    rows = (
        _group_row(cell, estimate, phase, group)
        for cell in cells
        if (estimate := cell.estimate) is not None
        for phase in estimate.phases
        for group in phase.groups
    )
    return to_rows(GROUP_COLUMNS, rows)


def to_rows(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Write ``rows`` as CSV below the names of their columns."""
    written = StringIO(newline="")
    writer = csv.DictWriter(written, columns)
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _cell(cell: Cell, *, with_groups: bool) -> dict[str, Any]:
    estimate = cell.estimate
    asked = {
        "model": cell.model,
        "device": _device(cell.processor),
        "precision": cell.precision,
        "batch": cell.batch,
    }
    if estimate is None:
        return {**asked, "problem": cell.problem}
    return {
        **asked,
        "num_devices": estimate.num_devices,
        "mode": estimate.mode,
        "unit": estimate.unit,
        "point": asdict(estimate.point),
        "totals": _totals(estimate),
        "phases": [_phase(phase, with_groups=with_groups) for phase in estimate.phases],
        "confidence": asdict(estimate.confidence),
        "data_energy_j": list(estimate.data_energy_j),
        "without_formula": dict(estimate.without_formula),
        "opportunities": [asdict(one) for one in cell.opportunities],
    }


def _device(processor: Processor) -> dict[str, Any]:
    return {
        "key": processor.key,
        "product_name": processor.product_name,
        "family": processor.family,
        "architecture": processor.architecture,
        "node_nm": processor.node_nm,
    }


def _totals(estimate: Estimate) -> dict[str, Any]:
    phases = estimate.phases
    energy = EnergySplit.total(phase.energy for phase in phases)
    return {
        "latency_s": estimate.latency_s,
        "roofline_s": sum(phase.roofline_s for phase in phases),
        "energy_j": {**{name: energy.of(name) for name in COMPONENTS}, "total": estimate.energy_j},
        "power_w": estimate.power_w,
        "peak_power_w": max(phase.peak_power_w for phase in phases),
        "cap_w": estimate.cap_w * estimate.num_devices,
        "throttled_fraction": sum(p.throttled_fraction * p.latency_s for p in phases)
        / estimate.latency_s,
        "edp_js": estimate.edp_js,
        "fits": estimate.fits,
        "time_set_by": bound_shares(phases),
    }


def _phase(phase: PhaseEstimate, *, with_groups: bool) -> dict[str, Any]:
    content = asdict(phase)
    if not with_groups:
        del content["groups"]
    content["energy"]["total_j"] = phase.energy.total_j
    content["memory"] |= {"peak_b": phase.memory.peak_b, "fits": phase.memory.fits}
    return content


def _rows(cell: Cell) -> Iterator[Mapping[str, object]]:
    asked = {
        "model": cell.model,
        "device": cell.processor.key,
        "family": cell.processor.family,
        "tier": cell.processor.tier,
        "precision": cell.precision,
        "batch": cell.batch,
        "problem": cell.problem,
    }
    if cell.estimate is None:
        yield asked
        return
    for phase in cell.estimate.phases:
        yield {**asked, **_setting(cell.estimate), **_figures(phase)}


def _setting(estimate: Estimate) -> dict[str, object]:
    return {
        "tier": estimate.confidence.tier,
        "num_devices": estimate.num_devices,
        "mode": estimate.mode,
        "clock_mhz": estimate.point.sm_clock_mhz,
        "power_limit_w": estimate.point.power_limit_w,
        "unit": estimate.unit,
        "cap_w": estimate.cap_w * estimate.num_devices,
        "time_error": estimate.confidence.time_error,
        "energy_error": estimate.confidence.energy_error,
    }


def _figures(phase: PhaseEstimate) -> dict[str, object]:
    return {
        "phase": phase.phase,
        "work": phase.work,
        "latency_s": phase.latency_s,
        "roofline_s": phase.roofline_s,
        "energy_j": phase.energy.total_j,
        **asdict(phase.energy),
        "energy_per_unit_j": phase.energy_per_unit_j,
        "time_per_unit_s": phase.time_per_unit_s,
        "edp_js": phase.energy.total_j * phase.latency_s,
        "power_w": phase.power_w,
        "peak_power_w": phase.peak_power_w,
        "throttled_fraction": phase.throttled_fraction,
        "memory_peak_b": phase.memory.peak_b,
        "memory_capacity_b": phase.memory.capacity_b,
        "fits": int(phase.memory.fits),
    }


def _group_row(
    cell: Cell, estimate: Estimate, phase: PhaseEstimate, group: GroupEstimate
) -> Mapping[str, object]:
    return {
        "model": cell.model,
        "device": cell.processor.key,
        "precision": cell.precision,
        "batch": cell.batch,
        "mode": estimate.mode,
        "phase": phase.phase,
        "group": group.name,
        "module": group.module,
        "kind": group.kind,
        "operators": " ".join(group.operators),
        "count": group.count,
        "flop": sum(group.flop.values()),
        "flop_by_pipe": _packed(group.flop),
        "main_memory_b": group.moved_b.get(cell.processor.memory.name, 0.0),
        "moved_b_by_level": _packed(group.moved_b),
        "device_s": group.device_s,
        "elapsed_s": group.elapsed_s,
        "roofline_s": group.roofline_s,
        "bound": group.bound,
        "clock_mhz": group.clock_mhz,
        "power_w": group.power_w,
        "energy_j": group.energy.total_j,
        **asdict(group.energy),
    }


def _packed(values: Mapping[Any, float]) -> str:
    """Write ``"tensor_fp16=4e+11 fp32=1e+06"``."""
    return " ".join(f"{str(name).replace(' ', '_')}={value:.9g}" for name, value in values.items())


SUFFIXES = (".json", ".csv", ".html")


def check_target(path: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Refuse a file that could not be written, before anything is computed.

    Raises:
        ConfigError: If the suffix is none of ``suffixes``, or no such file can be made.
    """
    if path.suffix not in suffixes:
        known = ", ".join(suffixes)
        raise ConfigError(f"The file must end in one of {known}, got {str(path)!r}.")
    check_file(path)


def write_cells(cells: Sequence[Cell], path: Path, *, per_group: bool = False) -> Path:
    """Write ``cells`` to a .json, .csv or .html file, whole or not at all.

    The CSV has a row for each phase, or for each group.

    Raises:
        ConfigError: If there can be no such file.
        TrackingError: If it cannot be written.
    """
    check_target(path)
    if path.suffix == ".json":
        text = to_json(cells) + "\n"
    elif path.suffix == ".csv":
        text = groups_to_csv(cells) if per_group else to_csv(cells)
    else:
        from joulelab.analysis.estimates.page import page

        text = page(cells)
    write_whole(path, text)
    return path
