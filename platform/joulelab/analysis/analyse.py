"""From measurements to what a sweep found."""

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean

from joulelab.analysis.compared import (
    DEFAULT,
    comparable,
    drifts_of,
    figures_by_label,
    fit_quantities,
    mean_of,
    observed_clock_mhz,
    point_label,
)
from joulelab.analysis.sweep import Figures, PhaseResult, SweepResult, SweepRow
from joulelab.core.comparison import BestSet, best_set
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.objectives import Objective, without_quality


def analyse_sweep(
    measurements: Sequence[Measurement], objective: str = "edp", *, level: float = 0.95
) -> SweepResult:
    """Compare the operating points of a sweep, all measured in one study.

    ``objective`` is what is to be low: ``"energy"``, ``"time"``, ``"edp"``, ``"ed2p"``, or one of
    a plug-in; ``level`` the confidence of intervals and of the set that may be best.

    Raises:
        UnknownNameError: If there is no such objective.
        ConfigError: If quality counts in it; if there are no measurements, or of more than one
            study.
    """
    aim = without_quality(objective)
    studies = {m.study for m in measurements}
    if len(studies) != 1:
        raise ConfigError(f"A sweep needs measurements of one study, got {sorted(studies)}.")
    groups: dict[object, list[Measurement]] = {}
    for m in measurements:
        is_hardware = m.device.backend not in {"simulated", "replay"}
        asked = (m.configuration.workload, m.configuration.knobs, m.phase)
        key = (*asked, m.device.name, is_hardware)
        groups.setdefault(key, []).append(m)
    phases = tuple(_phase(group, aim, level) for group in groups.values())
    return SweepResult(study=studies.pop(), phases=phases)


def _phase(group: list[Measurement], objective: Objective, level: float) -> PhaseResult:
    counted, exclusions = comparable(group, point_label, DEFAULT)
    fits = fit_quantities(counted, point_label, objective) if counted else None
    found = best_set(fits.objective, level=level) if fits else None
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
        objective=objective.name,
        level=level,
        rows=_rows(group, counted, figures),
        recommended=_recommended(found, figures) if found else None,
        lowest=found.best if found else None,
        members=members,
        repeat_sd=fits.energy.residual_sd if fits else None,
        dof=fits.energy.dof if fits else 0,
        drifts=drifts_of(counted, point_label, level),
        exclusions=exclusions,
        source=counted[0].windows[0].source if counted else "",
    )


def _recommended(found: BestSet, figures: Mapping[str, Figures]) -> str:
    """Choose of the points that may be best: the default if that may, else the fastest."""
    if DEFAULT in found.members:
        return DEFAULT
    return min(found.members, key=lambda label: figures[label].time_per_unit_s)


def _rows(
    group: Sequence[Measurement], counted: Sequence[Measurement], figures: Mapping[str, Figures]
) -> tuple[SweepRow, ...]:
    valid: dict[str, list[Measurement]] = {}
    for m in counted:
        valid.setdefault(point_label(m), []).append(m)
    asked: dict[OperatingPoint, list[Measurement]] = {}
    for m in group:
        asked.setdefault(m.configuration.point, []).append(m)
    return tuple(
        SweepRow(
            point=point,
            num_valid=len(valid.get(point.label, ())),
            num_invalid=sum(not m.valid for m in asked[point]),
            reasons=tuple(dict.fromkeys(f.reason for m in asked[point] for f in m.findings)),
            observed_clock_mhz=observed_clock_mhz(asked[point]),
            power_cap_share=mean_of([m.observed.power_cap_share for m in asked[point]]),
            figures=figures.get(point.label),
            reported=_reported(valid.get(point.label, ())),
        )
        for point in sorted(asked, key=_place)
    )


def _reported(measurements: Sequence[Measurement]) -> tuple[tuple[str, float], ...]:
    reported: dict[str, list[float]] = {}
    for m in measurements:
        for name, value in m.figures:
            reported.setdefault(name, []).append(value)
    return tuple((name, fmean(values)) for name, values in reported.items())


def _place(point: OperatingPoint) -> tuple[bool, float, float, float]:
    """Order points: the default, then from the highest clock and limit down."""
    knobs = (point.sm_clock_mhz, point.mem_clock_mhz, point.power_limit_w)
    clock, memory, limit = (-inf if knob is None else -float(knob) for knob in knobs)
    return (not point.is_default, clock, memory, limit)
