"""From measurements to what a sweep found."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from joulelab.analysis.compared import (
    EXPONENTS,
    comparable,
    drifts_of,
    figures_by_label,
    fit_quantities,
    mean_of,
    observed_clock_mhz,
)
from joulelab.analysis.sweep import Figures, PhaseResult, SweepResult, SweepRow
from joulelab.core.comparison import best_set
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

DEFAULT = OperatingPoint().label


def analyse_sweep(
    measurements: Sequence[Measurement], objective: str = "edp", *, level: float = 0.95
) -> SweepResult:
    """Compare the operating points of a sweep.

    Args:
        measurements: All that the sweep measured, valid or not, of one study.
        objective: What is to be low: ``"energy"``, ``"time"``, ``"edp"`` or ``"ed2p"``.
        level: Confidence level of intervals, and of the set that may be best.

    Raises:
        UnknownNameError: If there is no such objective.
        ConfigError: If there are no measurements, or of more than one study.
    """
    if objective not in EXPONENTS:
        raise unknown_name("objective", objective, EXPONENTS)
    studies = {m.study for m in measurements}
    if len(studies) != 1:
        raise ConfigError(f"A sweep needs measurements of one study, got {sorted(studies)}.")
    groups: dict[object, list[Measurement]] = {}
    for m in measurements:
        is_hardware = m.device.backend not in {"simulated", "replay"}
        asked = (m.configuration.workload, m.configuration.knobs, m.phase)
        key = (*asked, m.device.name, is_hardware)
        groups.setdefault(key, []).append(m)
    phases = tuple(_phase(group, objective, level) for group in groups.values())
    return SweepResult(study=studies.pop(), phases=phases)


def _phase(group: list[Measurement], objective: str, level: float) -> PhaseResult:
    counted, exclusions = comparable(group, _label, DEFAULT)
    fits = fit_quantities(counted, _label) if counted else None
    found = best_set(getattr(fits, objective), level=level) if fits else None
    members = found.members if found else ()
    figures = (
        figures_by_label(fits, reference=DEFAULT, members=members, level=level) if fits else {}
    )
    first = group[0]
    return PhaseResult(
        workload=first.configuration.workload,
        knobs=first.configuration.knobs,
        phase=first.phase,
        unit=first.unit,
        device_name=first.device.name,
        boards=tuple({m.device.uuid: m.device for m in group}.values()),
        objective=objective,
        level=level,
        rows=_rows(group, counted, figures),
        best=found.best if found else None,
        members=members,
        repeat_sd=fits.energy.residual_sd if fits else None,
        dof=fits.energy.dof if fits else 0,
        drifts=drifts_of(counted, _label, level),
        exclusions=exclusions,
        source=counted[0].windows[0].source if counted else "",
    )


def _rows(
    group: Sequence[Measurement], counted: Sequence[Measurement], figures: Mapping[str, Figures]
) -> tuple[SweepRow, ...]:
    counts = Counter(_label(m) for m in counted)
    asked: dict[OperatingPoint, list[Measurement]] = {}
    for m in group:
        asked.setdefault(m.configuration.point, []).append(m)
    return tuple(
        SweepRow(
            point=point,
            num_valid=counts[point.label],
            num_invalid=sum(not m.valid for m in asked[point]),
            reasons=tuple(dict.fromkeys(f.reason for m in asked[point] for f in m.findings)),
            observed_clock_mhz=observed_clock_mhz(asked[point]),
            power_cap_share=mean_of([m.observed.power_cap_share for m in asked[point]]),
            figures=figures.get(point.label),
        )
        for point in sorted(asked, key=_place)
    )


def _place(point: OperatingPoint) -> tuple[bool, float, float, float]:
    """Order points: the default, then from the highest clock and limit down."""
    knobs = (point.sm_clock_mhz, point.mem_clock_mhz, point.power_limit_w)
    clock, memory, limit = (-inf if knob is None else -float(knob) for knob in knobs)
    return (not point.is_default, clock, memory, limit)


def _label(measurement: Measurement) -> str:
    return measurement.configuration.point.label
