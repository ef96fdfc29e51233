"""From measurements to what a sweep found."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf, log
from statistics import fmean, median

import numpy as np

from joulelab.analysis.sweep import Exclusion, Figures, PhaseResult, SweepResult, SweepRow
from joulelab.core.additive import AdditiveFit, Interval, fit_additive, tied
from joulelab.core.comparison import best_set
from joulelab.core.drift import Drift, fit_drift
from joulelab.core.measurement import Measurement
from joulelab.core.pareto import non_dominated
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

EXPONENTS = {"energy": (1, 0), "time": (0, 1), "edp": (1, 1), "ed2p": (1, 2)}
"""Objectives that can be compared: exponents of energy and of time."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fits:
    """The same measurements fitted for each quantity."""

    energy: AdditiveFit
    time: AdditiveFit
    edp: AdditiveFit
    ed2p: AdditiveFit


def _phase(group: list[Measurement], objective: str, level: float) -> PhaseResult:
    counted, exclusions = _counted(group)
    fits = _fits(counted) if counted else None
    found = best_set(getattr(fits, objective), level=level) if fits else None
    members = found.members if found else ()
    figures = _figures(fits, members, level) if fits else {}
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
        drifts=_drifts(counted, level),
        exclusions=exclusions,
        source=counted[0].windows[0].source if counted else "",
    )


def _counted(group: Sequence[Measurement]) -> tuple[list[Measurement], tuple[Exclusion, ...]]:
    """Split into the measurements that can be compared and those that cannot."""
    invalid = [_exclusion(m) for m in group if not m.valid]
    valid = [m for m in group if m.valid]
    if not valid:
        return [], tuple(invalid)
    source = Counter(m.windows[0].source for m in valid).most_common(1)[0][0]
    alike = [m for m in valid if m.windows[0].source == source]
    mixed = [
        _exclusion(m, f"Its energy is not from the {source}, as that of most others is.")
        for m in valid
        if m.windows[0].source != source
    ]
    labels, boards = [_label(m) for m in alike], [m.device.uuid for m in alike]
    reference = DEFAULT if DEFAULT in labels else Counter(labels).most_common(1)[0][0]
    is_tied = tied(labels, boards, reference)
    counted = [m for m, yes in zip(alike, is_tied, strict=True) if yes]
    apart = [
        _exclusion(m, f"Its board shares no operating point with those that ran {reference}.")
        for m, yes in zip(alike, is_tied, strict=True)
        if not yes
    ]
    return counted, (*invalid, *mixed, *apart)


def _exclusion(measurement: Measurement, why: str = "") -> Exclusion:
    return Exclusion(
        measurement_id=measurement.measurement_id,
        label=_label(measurement),
        board=measurement.device.uuid,
        findings=measurement.findings,
        why=why,
    )


def _fits(counted: Sequence[Measurement]) -> _Fits:
    labels = [_label(m) for m in counted]
    boards = [m.device.uuid for m in counted]
    energy = np.log([m.energy_per_unit_j for m in counted])
    time = np.log([m.time_per_unit_s for m in counted])
    energy_u = np.array([m.energy_per_unit_u_j / m.energy_per_unit_j for m in counted])
    time_u = np.array([m.time_per_unit_u_s / m.time_per_unit_s for m in counted])

    def fit(name: str) -> AdditiveFit:
        e, t = EXPONENTS[name]
        # Energy and time of a window may err together, so their uncertainties add up plainly.
        return fit_additive(labels, boards, e * energy + t * time, e * energy_u + t * time_u)

    return _Fits(energy=fit("energy"), time=fit("time"), edp=fit("edp"), ed2p=fit("ed2p"))


def _figures(fits: _Fits, members: Sequence[str], level: float) -> dict[str, Figures]:
    labels = fits.energy.configurations
    costs = np.column_stack([fits.energy.estimate, fits.time.estimate])
    on_front = dict(zip(labels, non_dominated(costs).tolist(), strict=True))
    found = {}
    for label in labels:
        energy_j, time_s = fits.energy.value(label), fits.time.value(label)
        edp_js, ed2p_js2 = fits.edp.value(label), fits.ed2p.value(label)
        saving = slowdown = None
        if DEFAULT in labels:
            saving = _less(fits.energy.ratio(label, DEFAULT, level=level))
            slowdown = _more(fits.time.ratio(label, DEFAULT, level=level))
        found[label] = Figures(
            power_w=energy_j / time_s,
            energy_per_unit_j=energy_j,
            energy_per_unit_u_j=energy_j * fits.energy.relative_u(label),
            time_per_unit_s=time_s,
            time_per_unit_u_s=time_s * fits.time.relative_u(label),
            edp_js=edp_js,
            edp_u_js=edp_js * fits.edp.relative_u(label),
            ed2p_js2=ed2p_js2,
            ed2p_u_js2=ed2p_js2 * fits.ed2p.relative_u(label),
            saving=saving,
            slowdown=slowdown,
            in_set=label in members,
            on_front=on_front[label],
        )
    return found


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
            observed_clock_mhz=_observed_clock_mhz(asked[point]),
            power_cap_share=_mean([m.observed.power_cap_share for m in asked[point]]),
            figures=figures.get(point.label),
        )
        for point in sorted(asked, key=_place)
    )


def _place(point: OperatingPoint) -> tuple[bool, float, float, float]:
    """Order points: the default, then from the highest clock and limit down."""
    knobs = (point.sm_clock_mhz, point.mem_clock_mhz, point.power_limit_w)
    clock, memory, limit = (-inf if knob is None else -float(knob) for knob in knobs)
    return (not point.is_default, clock, memory, limit)


def _drifts(counted: Sequence[Measurement], level: float) -> tuple[Drift, ...]:
    watched = {_label(m) for m in counted if m.sentinel}
    seen: dict[str, list[Measurement]] = {}
    for m in counted:
        if _label(m) in watched:
            seen.setdefault(m.device.uuid, []).append(m)
    return tuple(
        fit_drift(
            board,
            _times_s(ms),
            [log(m.energy_per_unit_j) for m in ms],
            level=level,
        )
        for board, ms in sorted(seen.items())
    )


def _times_s(measurements: Sequence[Measurement]) -> list[float]:
    """Return when each was measured: by the board's own clock, unless that was ever restarted."""
    wall_s = [datetime.fromisoformat(m.provenance.started_at).timestamp() for m in measurements]
    own_s = [m.windows[0].start_s for m in measurements]
    in_order = [own_s[i] for i in np.argsort(wall_s, kind="stable")]
    return own_s if in_order == sorted(own_s) else wall_s


def _observed_clock_mhz(measurements: Sequence[Measurement]) -> float | None:
    trusted = [m for m in measurements if m.valid] or measurements
    clocks = [m.observed.sm_clock_mhz for m in trusted if m.observed.sm_clock_mhz is not None]
    return median(clocks) if clocks else None


def _mean(values: Iterable[float | None]) -> float | None:
    read = [value for value in values if value is not None]
    return fmean(read) if read else None


def _less(ratio: Interval) -> Interval:
    return Interval(value=1 - ratio.value, low=1 - ratio.high, high=1 - ratio.low)


def _more(ratio: Interval) -> Interval:
    return Interval(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


def _label(measurement: Measurement) -> str:
    return measurement.configuration.point.label
