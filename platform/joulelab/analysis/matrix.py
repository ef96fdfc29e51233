"""Every workload in every number format: cells, what each came to, and the table as CSV."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Literal, get_args

from joulelab.analysis.baseline import BaselineRow, baseline_rows
from joulelab.analysis.knob_grid import Axis, Case, KnobGrid, knob_grid
from joulelab.analysis.table import Columns
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.validity import MAX_THROTTLE_SHARE
from joulelab.registry import unknown_name
from joulelab.workloads import WORKLOADS

CellState = Literal["measured", "refused", "unsupported", "invalid", "missing"]
"""What became of a cell: it has figures; the workload has no such format; the GPU or its memory
cannot run it; it was measured and must not be believed, or failed; it was not tried yet."""

OUTCOMES: tuple[CellState, ...] = get_args(CellState)

_ASKED = ("only", "precisions", "batches")  # settings of the study that say which cells it has
_NAMED = ("workload", "variant", "precision", "batch", "phase")
_SEEN = (
    "device", "num_valid", "num_invalid", "power_w", "power_u_w", "energy_per_unit_j",
    "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s", "sm_clock_mhz",
    "temperature_c", "power_cap_share", "memory_power_w", "samples_over_counter",
)  # fmt: skip
COLUMNS: Columns = {
    **{name: name for name in _NAMED},
    "unit": "seen.unit",
    **{name: name for name in ("outcome", "reason")},
    **{name: f"seen.{name}" for name in _SEEN},
    "power_capped": "is_capped",
    **{name: name for name in ("boards", "knobs")},
}
"""Columns of the CSV, in SI units; what is not known is empty, boards are UUIDs, knobs JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A workload as it is commonly run, in every number format and in some batches."""

    workload: str
    name: str
    knobs: Mapping[str, KnobValue]  # what it differs in from the workload's defaults
    batches: tuple[int, ...]
    prepare_s: float = 2.0  # seconds to prepare it on a GPU, roughly, for plans

    def grid(self, precisions: Sequence[str], batches: Sequence[int] = ()) -> KnobGrid:
        """Combine it with ``precisions`` and its batches, or ``batches`` in place of them."""
        axes = [Axis(knob="precision", values=tuple(precisions), title="format")]
        if self.batches:
            axes.append(Axis(knob="batch", values=tuple(batches or self.batches), title="batch"))
        return knob_grid(self.workload, self.knobs, axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One phase of one cell, ``""`` where it is refused; ``seen`` is ``None`` if not tried."""

    workload: str
    variant: str
    precision: str
    batch: KnobValue
    phase: str
    outcome: CellState
    reason: str = ""
    seen: BaselineRow | None = None
    boards: tuple[str, ...] = ()
    configuration: Configuration | None = None

    @property
    def is_capped(self) -> bool | None:
        """Whether the power cap held the clocks down; ``None`` if unread."""
        share = None if self.seen is None else self.seen.power_cap_share
        return None if share is None else share > MAX_THROTTLE_SHARE

    @property
    def knobs(self) -> str | None:
        """What it was run with, as JSON; ``None`` where the workload refuses the cell."""
        found = self.configuration
        return None if found is None else dumps(dict(found.knobs))


Matrix = Sequence[tuple[Variant, KnobGrid]]  # variants, each with its cells


def matrix_of(
    only: Sequence[str], precisions: Sequence[str], batches: Sequence[int] = ()
) -> Matrix:
    """Return the chosen variants with their cells.

    Raises UnknownNameError if no workload or variant has such a name; names the closest.
    """
    return [(each, each.grid(precisions, batches)) for each in chosen(only)]


def matrix_in(settings: Mapping[str, KnobValue]) -> Matrix | None:
    """Return the matrix that a study's header says was measured; ``None`` of another kind."""
    asked = [str(settings[name]).split() for name in _ASKED if name in settings]
    if len(asked) < len(_ASKED) or "again" not in settings:  # studies of knobs have the others
        return None
    only, precisions, batches = asked
    return matrix_of(only, precisions, [int(batch) for batch in batches])


def configurations(matrix: Matrix) -> tuple[Configuration, ...]:
    """Return what is to be measured, variant by variant."""
    cases = (case for _, grid in matrix for case in grid.cases)
    return tuple(case.configuration for case in cases if case.configuration is not None)


def matrix_rows(matrix: Matrix, measurements: Sequence[Measurement]) -> tuple[MatrixRow, ...]:
    """Say what became of every cell, phase by phase, in the order of the variants."""
    groups = grouped_by(measurements, lambda each: (each.configuration, each.phase))
    return tuple(
        row
        for variant, grid in matrix
        for case in grid.cases
        for row in _rows(variant, case, groups)
    )


def _rows(
    variant: Variant,
    case: Case,
    groups: Mapping[tuple[Configuration, str], Sequence[Measurement]],
) -> Iterator[MatrixRow]:
    precision, *batch = case.values
    found = case.configuration
    for phase in ("",) if found is None else WORKLOADS.of(found).phases:
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


def _outcome(case: Case, group: Sequence[Measurement]) -> tuple[CellState, str]:
    if case.configuration is None:
        return "refused", case.refusal
    if not group:
        return "missing", "It was not measured yet."
    if any(measurement.valid for measurement in group):
        return "measured", ""
    findings = group[-1].findings
    if {finding.reason for finding in findings} == {"unsupported"}:
        return "unsupported", findings[0].detail
    return "invalid", " ".join(map(str, findings))


Knobs = Mapping[str, KnobValue]

_LANGUAGE: Knobs = {"prompt_tokens": 256, "new_tokens": 16}
"""Short generations, since every window holds whole ones."""

_RANDOM: Knobs = {"weights": None}
"""Training would take a minute and change neither time nor energy."""

_ROWS: tuple[tuple[str, str, Knobs, tuple[int, ...], float], ...] = (
    ("gemm", "n=1024", {"n": 1024}, (1,), 2.0),
    ("gemm", "n=8192", {"n": 8192}, (1,), 2.0),
    ("stream", "copy", {"kernel": "copy"}, (), 2.0),
    ("stream", "triad", {"kernel": "triad"}, (), 2.0),
    ("llama", "llama-2-7b", {"model": "llama-2-7b", **_LANGUAGE}, (1, 16), 7.0),
    ("llama", "llama-3-8b", {"model": "llama-3-8b", **_LANGUAGE}, (1,), 7.0),
    ("llama", "tinyllama", {"model": "tinyllama", **_LANGUAGE}, (1,), 2.0),
    ("vit", "vit-base", {"model": "vit-base"}, (1, 64), 2.0),
    ("vit", "vit-large", {"model": "vit-large"}, (64,), 2.0),
    ("bert", "bert-large", {"model": "bert-large"}, (1, 32), 2.0),
    ("resnet50", "resnet50", {}, (1, 64), 2.0),
    ("diffusion", "sd-1.5", {"model": "sd-1.5", "steps": 20}, (1,), 6.0),
    ("lstm", "sentiment", {"model": "sentiment"}, (64,), 2.0),
    ("lstm", "large", {"model": "large"}, (64,), 2.0),
    ("detection", "rtdetr-r50", {"model": "rtdetr-r50"}, (1, 16), 2.0),
    ("detection", "yolos-small", {"model": "yolos-small"}, (1,), 2.0),
    ("whisper", "base", {"model": "base"}, (1,), 2.0),
    ("whisper", "large-v3", {"model": "large-v3", "audio_seconds": 10.0}, (1,), 5.0),
    ("bloom", "bloom-560m", {"model": "bloom-560m", **_LANGUAGE}, (1,), 3.0),
    ("char-lm", "char-lm", _RANDOM, (16,), 2.0),
    ("digits-vit", "digits-vit", _RANDOM, (64,), 2.0),
    ("digits-lstm", "digits-lstm", _RANDOM, (64,), 2.0),
    ("digits-diffusion", "digits-diffusion", _RANDOM, (32,), 2.0),
)
VARIANTS = tuple(
    Variant(workload=workload, name=name, knobs=knobs, batches=batches, prepare_s=prepare_s)
    for workload, name, knobs, batches, prepare_s in _ROWS
)
"""Workloads as they are commonly run: those that show the limits of the GPU first."""


def chosen(names: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of these workloads or names; all of them without any.

    Raises UnknownNameError if no workload or variant has such a name; names the closest.
    """
    known = {name for each in VARIANTS for name in (each.workload, each.name)}
    for name in names:
        if name not in known:
            raise unknown_name("workload or variant", name, known)
    return tuple(each for each in VARIANTS if not names or {each.workload, each.name} & {*names})
