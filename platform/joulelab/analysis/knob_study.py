"""From measurements of a grid of knobs to what each combination costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

from joulelab.analysis import compared
from joulelab.analysis.knob_grid import Axis, Case, KnobGrid
from joulelab.core.additive import Interval
from joulelab.core.configuration import KnobValue
from joulelab.core.energy import EnergyWindow
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.quality import Quality
from joulelab.core.statistics import mean_of
from joulelab.errors import ConfigError
from joulelab.objectives import ENERGY, Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobRow(compared.Row):
    """What one combination of values costs in one phase, savings being against the reference.

    It ``is_unsupported`` where the workload or the GPU cannot do it.
    """

    case: Case
    reason: str
    is_unsupported: bool
    quality: tuple[Quality, ...] = ()

    @property
    def x(self) -> KnobValue:
        """Value of the last axis."""
        return self.case.values[-1]

    @property
    def series(self) -> tuple[KnobValue, ...]:
        """Values of the other axes."""
        return self.case.values[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobPhase(compared.Phase[KnobRow]):
    """One phase of the workload over the grid, in whose order the combinations are.

    ``reference`` is the label of the row that the others are compared with: the first that could be
    measured; ``None`` if none could.
    """

    axes: tuple[Axis, ...]
    reference: str | None
    fits: compared.Fits | None

    @property
    def is_open(self) -> bool:
        """Whether nothing tells how the measurements scatter, so that intervals have no end."""
        return self.fits is not None and self.fits[ENERGY].is_open

    @property
    def is_unrepeated(self) -> bool:
        """Whether nothing was repeated on one board: how repeats scatter is in no interval."""
        return self.fits is not None and not (self.is_open or self.fits[ENERGY].dof)

    @property
    def curves(self) -> dict[tuple[KnobValue, ...], tuple[tuple[KnobRow, compared.Figures], ...]]:
        """Rows that have figures, by the values of all axes but the last."""
        found = grouped_by(self.measured, lambda each: each[0].series)
        return {series: tuple(rows) for series, rows in found.items()}

    def curve_name(self, series: Sequence[KnobValue]) -> str:
        """Write the values of all axes but the last."""
        return ", ".join(axis.text(v) for axis, v in zip(self.axes[:-1], series, strict=True))

    def ratio(self, row: KnobRow, other: KnobRow, of: Objective = ENERGY) -> Interval:
        """Return what a unit of ``row`` takes over that of ``other``, both with figures."""
        if self.fits is None:
            raise ConfigError("There are no measurements to compare.")
        return self.fits[of].ratio(row.case.label, other.case.label, level=self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobResult:
    """What a study of knobs found, phase by phase, first the sum ``whole``, if any."""

    study: str
    phases: tuple[KnobPhase, ...]
    whole: str = ""

    @property
    def main_phases(self) -> tuple[KnobPhase, ...]:
        """The sum of all phases if there is one, else all of them."""
        sums = tuple(phase for phase in self.phases if phase.phase == self.whole)
        return sums or self.phases

    @property
    def complete(self) -> bool:
        """Whether every combination has figures, or cannot have any, and some have."""
        rows = [row for phase in self.phases for row in phase.rows]
        return any(row.figures for row in rows) and all(
            row.figures or row.is_unsupported for row in rows
        )


def analyse_knobs(
    measurements: Sequence[Measurement],
    grid: KnobGrid,
    *,
    quality: Sequence[tuple[Quality, ...]] = (),
    level: float = 0.95,
) -> KnobResult:
    """Compare the combinations of a grid; what is not of it is left out.

    ``quality`` is what the outputs of each case are worth; empty if not scored. Raises ConfigError
    if there are no measurements of the grid, or of more than one study or product.
    """
    known = [m for m in measurements if grid.case_of(m.configuration) is not None]
    studies, products = {m.study for m in known}, {m.device.name for m in known}
    if len(studies) != 1 or len(products) != 1:
        raise ConfigError(
            f"Knobs are compared within one study on GPUs of one product, got {sorted(studies)} "
            f"on {sorted(products)}."
        )
    groups = grouped_by(known, lambda m: m.phase)
    if grid.whole and len(groups) > 1:
        groups = {grid.whole: summed(known, grid.whole), **groups}
    phases = tuple(_phase(group, grid, quality, level) for group in groups.values())
    return KnobResult(study=studies.pop(), phases=phases, whole=grid.whole)


def _phase(
    group: Sequence[Measurement],
    grid: KnobGrid,
    quality: Sequence[tuple[Quality, ...]],
    level: float,
) -> KnobPhase:
    def label(m: Measurement) -> str:
        case = grid.case_of(m.configuration)
        return case.label if case is not None else ""

    valid = {label(m) for m in group if m.valid}
    reference = next((case.label for case in grid.cases if case.label in valid), None)
    counted, exclusions = compared.comparable(group, label, reference or "")
    fits = compared.fit_quantities(counted, label) if counted else None
    figures = compared.figures_by_label(fits, reference=reference or "", members=(), level=level)
    why = {exclusion.label: exclusion for exclusion in exclusions}
    first = group[0]
    return KnobPhase(
        workload=grid.workload,
        phase=first.phase,
        unit=first.unit,
        axes=grid.axes,
        device_name=first.device.name,
        boards=tuple({m.device.uuid: m.device for m in group}.values()),
        rows=tuple(
            _row(
                case,
                [m for m in group if label(m) == case.label],
                figures.get(case.label),
                why.get(case.label),
                quality[index] if quality else (),
            )
            for index, case in enumerate(grid.cases)
        ),
        reference=reference,
        fits=fits,
        level=level,
        drifts=compared.drifts_of(counted, label, level),
        exclusions=exclusions,
    )


def _row(
    case: Case,
    found: Sequence[Measurement],
    figures: compared.Figures | None,
    exclusion: compared.Exclusion | None,
    quality: tuple[Quality, ...],
) -> KnobRow:
    reason, reasons = case.refusal, set()
    if exclusion is not None:
        findings = exclusion.measurement.findings
        reason = exclusion.why or findings[0].detail
        reasons = {finding.reason for finding in findings}
    num_valid = sum(m.valid for m in found)
    return KnobRow(
        case=case,
        num_valid=num_valid,
        num_invalid=len(found) - num_valid,
        reason="" if figures else reason or "It was not measured.",
        is_unsupported=bool(case.refusal) or reasons == {"unsupported"},
        observed_clock_mhz=compared.observed_clock_mhz(found) if found else None,
        power_cap_share=mean_of([m.observed.power_cap_share for m in found]),
        figures=figures,
        quality=quality,
    )


def summed(measurements: Sequence[Measurement], phase: str) -> list[Measurement]:
    """Add up the phases of each attempt, which count the same unit of work.

    The sum of an attempt whose phases are not all valid has their findings. Uncertainties are
    of independent readings.
    """
    attempts = grouped_by(measurements, lambda m: (m.trial, m.attempt, m.device.uuid))
    return [_sum(parts, phase) for parts in attempts.values()]


def _sum(parts: Sequence[Measurement], phase: str) -> Measurement:
    first, findings = parts[0], tuple(f for m in parts for f in m.findings)
    name = f"{first.measurement_id}+"
    if findings:
        return replace(first, measurement_id=name, phase=phase, windows=(), findings=findings)
    window = EnergyWindow(
        start_s=first.windows[0].start_s,
        duration_s=sum(m.time_per_unit_s for m in parts),
        energy_j=sum(m.energy_per_unit_j for m in parts),
        energy_u_j=hypot(*(m.energy_per_unit_u_j for m in parts)),
        source=first.windows[0].source,
        work=1.0,
    )
    return replace(first, measurement_id=name, phase=phase, windows=(window,))
