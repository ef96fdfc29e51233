"""What a sweep found: every operating point with its error bars, and the set that may be best."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter
from statistics import fmean

from joulelab.analysis import compared
from joulelab.analysis.temperature import TemperatureEffect, temperature_effect
from joulelab.core.comparison import best_set
from joulelab.core.configuration import Configuration, KnobValue, knob_words
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.statistics import mean_of
from joulelab.core.validity import MAX_THROTTLE_SHARE
from joulelab.errors import ConfigError, MeasurementError
from joulelab.objectives import ENERGY, TIME, Objective, without_quality
from joulelab.tracking.study import ChartPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow(compared.Row):
    """One operating point of a sweep."""

    point: OperatingPoint
    reasons: tuple[str, ...]
    is_recommended: bool  # whether it is the point to use
    is_lowest: bool  # whether its objective is the lowest
    # What the workload reported of its own work, such as a server's latencies: means of the
    # measurements that count, by name.
    reported: tuple[tuple[str, float], ...] = ()

    @property
    def in_set(self) -> bool:
        """Whether it is statistically indistinguishable from the lowest."""
        return self.figures is not None and self.figures.in_set

    @property
    def on_front(self) -> bool:
        """Whether no other point takes both less energy and less time."""
        return self.figures is not None and self.figures.on_front

    @property
    def power_capped(self) -> bool:
        """Whether the power cap, not the request, set the clock for over 1 % of the time."""
        return self.power_cap_share is not None and self.power_cap_share > MAX_THROTTLE_SHARE

    @property
    def clock_mhz(self) -> float | None:
        """The clock to draw it at: as requested, else as observed."""
        requested = self.point.sm_clock_mhz
        return self.observed_clock_mhz if requested is None else float(requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult(compared.Phase[SweepRow]):
    """One phase of a sweep; its operating points are the default, then by descending clock."""

    knobs: tuple[tuple[str, KnobValue], ...]
    objective: str
    # The confidence set: labels of the points that are statistically indistinguishable from the
    # lowest, itself included, the lowest objective first.
    members: tuple[str, ...]
    # Relative standard deviation of one measurement's energy about the fit; None if nothing was
    # repeated.
    repeat_sd: float | None
    dof: int
    source: str  # where energies come from, "counter" or "samples"; "" for none
    is_replayed: bool  # whether recordings were replayed, each of which is one observation
    # Whether nothing tells how the measurements scatter: there is no set, and intervals have no
    # end.
    is_open: bool
    # Whether a board's factor changes evenly along the clocks, apart from that at the default.
    is_along_lines: bool = False
    is_smoothed: bool = False  # whether scatter is that of clocks about a curve, not of repeats
    temperature: TemperatureEffect | None = None  # what put energies to one temperature

    @property
    def default(self) -> SweepRow | None:
        """Row of the driver's default point; ``None`` if it was not measured."""
        return next((row for row in self.rows if row.point.is_default), None)

    @property
    def best(self) -> SweepRow | None:
        """The point to use; ``None`` without a valid measurement.

        It is the fastest of ``members``, or the driver's default if that is among them. Where the
        optimum is flat this stays put, while :attr:`least` goes with the noise.
        """
        return next((row for row in self.rows if row.is_recommended), None)

    @property
    def least(self) -> SweepRow | None:
        """The point of lowest objective; likewise."""
        return next((row for row in self.rows if row.is_lowest), None)

    @property
    def recommended(self) -> str | None:
        """Label of the point to use; likewise."""
        return None if self.best is None else self.best.point.label

    @property
    def lowest(self) -> str | None:
        """Label of the point of lowest objective; likewise."""
        return None if self.least is None else self.least.point.label

    def row(self, label: str) -> SweepRow:
        """Return the row of the point called ``label``."""
        return next(row for row in self.rows if row.point.label == label)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What a sweep found: a phase for each workload, set of knobs, phase and product."""

    study: str
    phases: tuple[PhaseResult, ...]

    def of_program(self, asked: Configuration) -> "SweepResult":
        """Return what was found of one program, whatever else its study holds.

        Raises MeasurementError if nothing was measured of it.
        """
        own = tuple(p for p in self.phases if (p.workload, p.knobs) == asked.program)
        if not own:
            name = f"{asked.workload} ({knob_words(asked.knobs)})"
            raise MeasurementError(f"Nothing was measured of {name} in study {self.study!r}.")
        return replace(self, phases=own)


Values = Callable[[compared.Figures], tuple[float, float]]
"""Value of a quantity, and its standard uncertainty."""

_VALUES: Mapping[str, Values] = {
    "energy": attrgetter("energy_per_unit_j", "energy_per_unit_u_j"),
    "time": attrgetter("time_per_unit_s", "time_per_unit_u_s"),
    "edp": attrgetter("edp_js", "edp_u_js"),
    "ed2p": attrgetter("ed2p_js2", "ed2p_u_js2"),
}


def cost_of(objective: Objective, unit: str) -> tuple[str, str, Values]:
    """Return name, unit and values of what a ``unit`` of work costs by ``objective``."""
    per = f"/{unit}" if objective in (ENERGY, TIME) else ""
    values = _VALUES.get(objective.name, attrgetter("cost", "cost_u"))
    return objective.label, f"{objective.unit}{per}", values


def analyse_sweep(
    measurements: Sequence[Measurement],
    objective: str = "edp",
    *,
    level: float = 0.95,
    reference_temperature_c: float | None = None,
) -> SweepResult:
    """Compare the operating points of a sweep, all measured in one study.

    ``objective`` is what is to be low: ``"energy"``, ``"time"``, ``"edp"``, ``"ed2p"``, or one of a
    plug-in; ``level`` the confidence of intervals and of the set that may be best. With a
    ``reference_temperature_c`` energies are those at that temperature, as
    :mod:`joulelab.analysis.temperature` has it. Raises UnknownNameError if there is no such
    objective; ConfigError if quality counts in it; if there are no measurements, or of more than
    one study; if they do not tell what temperature does.
    """
    aim = without_quality(objective)
    studies = {m.study for m in measurements}
    if len(studies) != 1:
        got = ", ".join(sorted(studies)) or "none"
        raise ConfigError(f"A sweep needs measurements of one study, got {got}.")
    # Boards measure at once: which product's trial ended first is chance.
    ordered = sorted(measurements, key=lambda m: m.device.name)
    groups = grouped_by(ordered, _kind)
    phases = tuple(_phase(group, aim, level, reference_temperature_c) for group in groups.values())
    return SweepResult(study=studies.pop(), phases=phases)


def _kind(m: Measurement) -> Hashable:
    return compared.program_of(m), m.device.name, m.device.backend in {"simulated", "replay"}


def _phase(
    group: list[Measurement], objective: Objective, level: float, reference_c: float | None
) -> PhaseResult:
    label = compared.point_label
    counted, exclusions = compared.comparable(group, label, compared.DEFAULT)
    effect = None
    if counted and reference_c is not None:
        effect = temperature_effect(counted, [label(m) for m in counted], reference_c)
    fits = compared.fit_quantities(counted, label, objective, effect=effect) if counted else None
    found = best_set(fits[objective], level=level) if fits else None
    is_open = fits is not None and fits[objective].is_open
    members = found.members if found and not is_open else ()
    figures = compared.figures_by_label(
        fits, reference=compared.DEFAULT, members=members, level=level, objective=objective
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
        rows=_rows(group, counted, figures, found.best if found else None, members),
        members=members,
        repeat_sd=fits[ENERGY].residual_sd if fits else None,
        dof=fits[ENERGY].dof if fits else 0,
        drifts=compared.drifts_of(counted, compared.point_label, level),
        exclusions=exclusions,
        source=counted[0].windows[0].source if counted else "",
        is_replayed=any(m.recording for m in counted),
        is_open=is_open,
        is_along_lines=fits is not None and fits[objective].is_along_lines,
        is_smoothed=fits is not None and fits[objective].is_smoothed,
        temperature=effect,
    )


def _recommended(members: Sequence[str], figures: Mapping[str, compared.Figures]) -> str:
    """Choose of the points that may be best: the default if that may, else the fastest."""
    if compared.DEFAULT in members:
        return compared.DEFAULT
    return min(members, key=lambda label: figures[label].time_per_unit_s)


def _rows(
    group: Sequence[Measurement],
    counted: Sequence[Measurement],
    figures: Mapping[str, compared.Figures],
    lowest: str | None,
    members: Sequence[str],
) -> tuple[SweepRow, ...]:
    recommended = _recommended(members, figures) if members else None
    valid = grouped_by(counted, compared.point_label)
    asked = grouped_by(group, lambda m: m.configuration.point)
    return tuple(
        SweepRow(
            point=point,
            num_valid=len(valid.get(point.label, ())),
            num_invalid=sum(not m.valid for m in asked[point]),
            reasons=tuple(dict.fromkeys(f.reason for m in asked[point] for f in m.findings)),
            observed_clock_mhz=compared.observed_clock_mhz(asked[point]),
            power_cap_share=mean_of([m.observed.power_cap_share for m in asked[point]]),
            figures=figures.get(point.label),
            is_recommended=point.label == recommended,
            is_lowest=point.label == lowest,
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


def curve_points(prefix: str, phase: PhaseResult) -> Iterator[ChartPoint]:
    """Yield what every requested SM clock of a phase costs; the step is the clock in MHz.

    Points of another power limit or memory clock lie on curves of their own, whose names say so.
    """
    names = ("energy_per_unit_j", "time_per_unit_s", "power_w", "edp_js")
    for row, figures in sorted(phase.measured, key=lambda each: each[0].point.sm_clock_mhz or 0):
        if row.point.sm_clock_mhz is None:
            continue
        rest = replace(row.point, sm_clock_mhz=None)
        suffix = "" if rest == OperatingPoint() else f" at {rest.label}"
        yield ChartPoint(
            step=row.point.sm_clock_mhz,
            values=tuple((f"{prefix}{name}{suffix}", getattr(figures, name)) for name in names),
            revised=True,
        )
