"""Estimates as answers: JSON and CSV in SI units, Markdown, or a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from joulelab.analysis.estimates.overview import (
    PAGE_FIGURES,
    answers,
    contrast_table,
    front_sentences,
    overview_table,
)
from joulelab.analysis.estimates.wording import bound_shares, headline
from joulelab.analysis.page import Output
from joulelab.analysis.table import Columns, Frame, frame
from joulelab.estimator.estimate import COMPONENTS, EnergySplit, Estimate, PhaseEstimate
from joulelab.estimator.question import Cell
from joulelab.hardware.processor import Processor
from joulelab.provenance import joulelab_version

SCHEMA_VERSION = 1  # raised when a name or a meaning changes; new names do not raise it


def _columns(entry: str, names: str, found: Columns) -> Columns:
    """Return where each of ``names`` is found, by default as an attribute of ``entry``."""
    return {name: found.get(name, f"{entry}.{name}") for name in names.split()}


_OF_CELLS = ("model", "precision", "batch", "price", "on_front", "problem")
_ASKED: Columns = {
    **{name: f"cell.{name}" for name in _OF_CELLS},
    "device": "cell.processor.key",
    "family": "cell.processor.family",
    **{name: f"estimate.{name}" for name in ("num_devices", "mode", "unit")},
    "phase": "phase.phase",
}
CELL_COLUMNS = _columns(
    "phase",
    "model device family tier num_devices precision batch mode clock_mhz power_limit_w phase work "
    "unit latency_s roofline_s energy_j compute_j memory_j static_j energy_per_unit_j "
    "time_per_unit_s edp_js power_w peak_power_w cap_w throttled_fraction waiting_j idle_j "
    "device_share unit_share memory_share memory_peak_b memory_capacity_b fits time_error "
    "energy_error price on_front problem",
    {
        **_ASKED,
        **{name: name for name in ("tier", "edp_js", "cap_w")},
        "clock_mhz": "estimate.point.sm_clock_mhz",
        "power_limit_w": "estimate.point.power_limit_w",
        "energy_j": "phase.energy.total_j",
        **{f"{name}_j": f"phase.energy.{name}_j" for name in COMPONENTS},
        **{f"memory_{name}": f"phase.memory.{name}" for name in ("peak_b", "capacity_b")},
        "fits": "phase.memory.fits",
        **{name: f"estimate.confidence.{name}" for name in ("time_error", "energy_error")},
    },
)
"""Columns of the CSV of cells: one row for each phase, and one for a cell without an answer."""

GROUP_COLUMNS = _columns(
    "group",
    "model device precision batch mode phase group module kind operators count flop flop_by_pipe "
    "main_memory_b moved_b_by_level device_s elapsed_s roofline_s bound clock_mhz power_w energy_j "
    "compute_j memory_j static_j",
    {
        **_ASKED,
        "group": "group.name",
        **{name: name for name in ("flop", "flop_by_pipe", "main_memory_b", "moved_b_by_level")},
        "energy_j": "group.energy.total_j",
        **{f"{name}_j": f"group.energy.{name}_j" for name in COMPONENTS},
    },
)
"""Columns of the CSV of groups: one row each, in the order in which they run."""


def groups_frame(cells: Sequence[Cell]) -> Frame:
    """List each group of each phase of each cell."""
    entries = (
        {
            **entry,
            "group": group,
            "flop": sum(group.flop.values()),
            "flop_by_pipe": _packed(group.flop),
            "main_memory_b": group.moved_b.get(cell.processor.memory.name, 0.0),
            "moved_b_by_level": _packed(group.moved_b),
        }
        for cell in cells
        for entry in _phases(cell)
        if (phase := entry["phase"]) is not None
        for group in phase.groups
    )
    return frame(GROUP_COLUMNS, entries)


def _phases(cell: Cell) -> Iterator[dict[str, Any]]:
    """Yield what is known of each phase; one without a phase of a cell without an answer."""
    estimate = cell.estimate
    if estimate is None:
        yield {"cell": cell, "estimate": None, "phase": None, "tier": cell.processor.tier}
        return
    for phase in estimate.phases:
        yield {
            "cell": cell,
            "estimate": estimate,
            "phase": phase,
            "tier": estimate.confidence.tier,
            "cap_w": estimate.cap_w * estimate.num_devices,
            "edp_js": phase.energy.total_j * phase.latency_s,
        }


def _cell(cell: Cell) -> dict[str, Any]:
    estimate = cell.estimate
    asked = {
        "model": cell.model,
        "device": device_fields(cell.processor),
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
        "phases": [_phase(phase) for phase in estimate.phases],
        "confidence": asdict(estimate.confidence),
        "data_energy_j": list(estimate.data_energy_j),
        "without_formula": dict(estimate.without_formula),
        "opportunities": [asdict(one) for one in cell.opportunities],
        "price": cell.price,
        "on_front": cell.on_front,
    }


def device_fields(processor: Processor) -> dict[str, Any]:
    """Return which processor it is, as JSON has it."""
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


def _phase(phase: PhaseEstimate) -> dict[str, Any]:
    content = asdict(phase)
    content["energy"]["total_j"] = phase.energy.total_j
    content |= {"idle_j": phase.idle_j, "device_share": phase.device_share}
    content["memory"] |= {"peak_b": phase.memory.peak_b, "fits": phase.memory.fits}
    return content


def _packed(values: Mapping[Any, float]) -> str:
    """Write ``"tensor_fp16=4e+11 fp32=1e+06"``."""
    return " ".join(f"{str(name).replace(' ', '_')}={value:.9g}" for name, value in values.items())


SUFFIXES = (".json", ".csv", ".md", ".html")


def cells_answer(cells: Sequence[Cell], *, per_group: bool = False) -> Output:
    """Return ``cells`` as an answer; its numbers are those of each phase, or of each group."""
    tables = [overview_table(cells, figures=PAGE_FIGURES)]
    if any(cell.on_front is not None for cell in cells) and (table := contrast_table(cells)):
        tables.append(table)

    entries = (entry for cell in cells for entry in _phases(cell))

    def page() -> str:
        from joulelab.analysis.estimates.page import page  # Matplotlib takes a second

        return page(cells)

    return Output(
        content=lambda: {
            "schema_version": SCHEMA_VERSION,
            "joulelab_version": joulelab_version(),
            "estimates": [_cell(cell) for cell in cells],
        },
        frame=groups_frame(cells) if per_group else frame(CELL_COLUMNS, entries),
        sentences=[*(answers(cells) or map(headline, cells)), *front_sentences(cells)],
        tables=tables,
        page=page,
    )
