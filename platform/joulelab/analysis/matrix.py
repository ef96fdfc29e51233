"""Every workload in every number format: cells, what each came to, and the table as CSV."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Literal, get_args

from joulelab.analysis.baseline import BaselineRow, baseline_rows
from joulelab.analysis.knob_grid import Axis, Case, KnobGrid, knob_grid
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.measurement import Measurement
from joulelab.tracking.durable import whole_text
from joulelab.workloads import WORKLOADS

Outcome = Literal["measured", "refused", "unsupported", "invalid", "missing"]
"""What became of a cell: it has figures; the workload has no such format; the GPU or its memory
cannot run it; it was measured and must not be believed, or failed; it was not tried yet."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_NAMED = ("workload", "variant", "precision", "batch", "phase", "unit", "outcome", "reason")
_SEEN = (
    "device", "num_valid", "num_invalid", "power_w", "power_u_w", "energy_per_unit_j",
    "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s", "sm_clock_mhz",
    "temperature_c", "power_cap_share", "memory_power_w", "samples_over_counter",
)  # fmt: skip
COLUMNS = (*_NAMED, *_SEEN, "power_capped", "boards", "knobs")
"""Columns of the CSV, in SI units; what is not known is empty, boards are UUIDs, knobs JSON."""

_CAPPED_SHARE = 0.01
"""Share of the time beyond which the power cap is said to hold the clocks down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A workload as it is commonly run, in every number format and in some batches.

    Attributes:
        workload: Name of the workload.
        name: Name of the variant.
        knobs: What it differs in from the workload's defaults.
        batches: Batches; empty for a workload that has none.
        prepare_s: Seconds to prepare it on a GPU, roughly, for plans.
    """

    workload: str
    name: str
    knobs: Mapping[str, KnobValue]
    batches: tuple[int, ...]
    prepare_s: float = 2.0

    def grid(self, precisions: Sequence[str], batches: Sequence[int] = ()) -> KnobGrid:
        """Combine it with ``precisions`` and its batches, or ``batches`` in place of them."""
        axes = [Axis(knob="precision", values=tuple(precisions), title="format")]
        if self.batches:
            axes.append(Axis(knob="batch", values=tuple(batches or self.batches), title="batch"))
        return knob_grid(self.workload, self.knobs, axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One phase of one cell.

    Attributes:
        workload: Name of the workload.
        variant: Name of the variant.
        precision: Number format.
        batch: Batch; ``None`` for a workload that has none.
        phase: The phase; ``""`` where the workload refuses the cell.
        outcome: What became of it.
        reason: Why there are no figures; ``""`` where there are.
        seen: What was measured; ``None`` where nothing was tried.
        boards: UUIDs of the GPUs with a valid measurement.
        configuration: What was to be measured; ``None`` where the workload refuses it.
    """

    workload: str
    variant: str
    precision: str
    batch: KnobValue
    phase: str
    outcome: Outcome
    reason: str = ""
    seen: BaselineRow | None = None
    boards: tuple[str, ...] = ()
    configuration: Configuration | None = None

    @property
    def is_capped(self) -> bool | None:
        """Whether the power cap held the clocks down; ``None`` if unread."""
        share = None if self.seen is None else self.seen.power_cap_share
        return None if share is None else share > _CAPPED_SHARE


Matrix = Sequence[tuple[Variant, KnobGrid]]
"""Variants, each with its cells."""


def configurations(matrix: Matrix) -> tuple[Configuration, ...]:
    """Return what is to be measured, variant by variant."""
    cases = (case for _, grid in matrix for case in grid.cases)
    return tuple(case.configuration for case in cases if case.configuration is not None)


def phases_of(configuration: Configuration) -> tuple[str, ...]:
    """Return the phases that are measured of ``configuration``."""
    workload = WORKLOADS[configuration.workload]
    return workload.from_knobs(dict(configuration.knobs)).phases


def matrix_rows(matrix: Matrix, measurements: Sequence[Measurement]) -> tuple[MatrixRow, ...]:
    """Say what became of every cell, phase by phase, in the order of the variants."""
    groups: defaultdict[tuple[Configuration, str], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        groups[measurement.configuration, measurement.phase].append(measurement)
    return tuple(
        row
        for variant, grid in matrix
        for case in grid.cases
        for row in _rows(variant, case, groups)
    )


def write_matrix_csv(rows: Sequence[MatrixRow], path: Path) -> None:
    """Write every cell, phase by phase, to ``path``, those without figures with the reason."""
    with whole_text(path) as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([_cell(value) for value in _values(row)] for row in rows)


def _rows(
    variant: Variant,
    case: Case,
    groups: Mapping[tuple[Configuration, str], Sequence[Measurement]],
) -> Iterator[MatrixRow]:
    precision, *batch = case.values
    found = case.configuration
    for phase in ("",) if found is None else phases_of(found):
        group = () if found is None else groups.get((found, phase), ())
        outcome, reason = _outcome(case, group)
        yield MatrixRow(
            workload=variant.workload,
            variant=variant.name,
            precision=str(precision),
            batch=batch[0] if batch else None,
            phase=phase,
            outcome=outcome,
            reason=reason,
            seen=baseline_rows(group)[0] if group else None,
            boards=tuple(sorted({each.device.uuid for each in group if each.valid})),
            configuration=found,
        )


def _outcome(case: Case, group: Sequence[Measurement]) -> tuple[Outcome, str]:
    if case.configuration is None:
        return "refused", case.refusal
    if not group:
        return "missing", "It was not measured yet."
    if any(measurement.valid for measurement in group):
        return "measured", ""
    findings = group[-1].findings
    told = " ".join(f"{finding.reason}: {finding.detail}" for finding in findings)
    if {finding.reason for finding in findings} == {"unsupported"}:
        return "unsupported", findings[0].detail
    return "invalid", told


def _values(row: MatrixRow) -> list[object]:
    unit = "" if row.seen is None else row.seen.unit
    named = [unit if column == "unit" else getattr(row, column) for column in _NAMED]
    seen = [None if row.seen is None else getattr(row.seen, column) for column in _SEEN]
    knobs = None if row.configuration is None else dumps(dict(row.configuration.knobs))
    capped = None if row.is_capped is None else int(row.is_capped)
    return [*named, *seen, capped, " ".join(row.boards), knobs]


def _cell(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
