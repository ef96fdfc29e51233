"""What every study of several boards comes to: rows with figures, and how they are compared."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log
from statistics import median
from typing import Generic, TypeVar

import numpy as np

from joulelab.analysis.power_cap import BEYOND, held_by_all
from joulelab.analysis.temperature import TemperatureEffect, with_shared_errors
from joulelab.core.additive import AdditiveFit, Interval, less, more, tied
from joulelab.core.comparison import non_dominated
from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceIdentity
from joulelab.core.grouping import grouped_by
from joulelab.core.interaction import fit_on_boards
from joulelab.core.lines import lines_of, scatter_of, with_scatter
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.steadiness import Drift, fit_drift
from joulelab.objectives import ED2P, EDP, ENERGY, TIME, Objective

LabelOf = Callable[[Measurement], str]
ProgramKey = tuple[str, tuple[tuple[str, KnobValue], ...], str]
"""Names what is compared: measurements of the same name are repeats of each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a row costs, on the average board, per unit of work.

    Uncertainties are standard ones (k = 1) from repeats and readings. The sensor's own class
    (some 5 % between boards) is common to all points and not in them.
    """

    power_w: float  # mean board power under load, in watts
    energy_per_unit_j: float  # energy, in joules (gross, idle power included)
    energy_per_unit_u_j: float
    time_per_unit_s: float
    time_per_unit_u_s: float
    edp_js: float
    edp_u_js: float
    ed2p_js2: float
    ed2p_u_js2: float
    cost: float  # the objective, in its unit
    cost_u: float
    # Share of energy saved against the reference (0.2 is 20 % less), with its confidence interval;
    # None without a valid reference
    saving: Interval | None
    # Relative time added against the reference (0.02 is 2 % more), likewise
    slowdown: Interval | None
    in_set: bool  # whether it is statistically indistinguishable from the lowest
    on_front: bool  # whether no other row takes both less energy and less time

    @property
    def energy_ratio(self) -> Interval | None:
        """Energy over that of the default point; ``None`` without a valid default."""
        return self.saving and less(self.saving)

    @property
    def time_ratio(self) -> Interval | None:
        """Time over that of the default point; likewise."""
        s = self.slowdown
        return s and Interval(value=1 + s.value, low=1 + s.low, high=1 + s.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many measurements of a row count, and how many are invalid or could not be made."""

    num_valid: int
    num_invalid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Counts):
    """What is compared, in one phase."""

    observed_clock_mhz: float | None  # median SM clock under load; None if unread
    # Mean share of the time (0 to 1) that the power cap held the clocks down; None if unread.
    power_cap_share: float | None
    figures: Figures | None  # what it costs; None without a valid measurement


RowT_co = TypeVar("RowT_co", bound=Row, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A measurement that does not count, and why, where its findings do not say."""

    measurement: Measurement
    label: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(Generic[RowT_co]):
    """One phase of one workload, on boards of one product; ``drifts`` are of its sentinels."""

    workload: str
    phase: str
    unit: str
    device_name: str
    boards: tuple[DeviceIdentity, ...]
    rows: tuple[RowT_co, ...]
    level: float
    drifts: tuple[Drift, ...]
    exclusions: tuple[Exclusion, ...]

    @property
    def title(self) -> str:
        """Workload and phase, short."""
        return self.workload if self.phase == self.workload else f"{self.workload} {self.phase}"

    @property
    def measured(self) -> tuple[tuple[RowT_co, Figures], ...]:
        """Rows that have figures, with them."""
        return tuple((row, row.figures) for row in self.rows if row.figures is not None)


DEFAULT = OperatingPoint().label


Fits = Mapping[Objective, AdditiveFit]
"""The same measurements fitted for energy, time, EDP, ED2P and what is to be low."""


def point_label(measurement: Measurement) -> str:
    """Name a measurement by its operating point."""
    return measurement.configuration.point.label


def program_of(measurement: Measurement) -> ProgramKey:
    """Return what ran, whatever the operating point: workload, knobs and phase."""
    configuration = measurement.configuration
    return *configuration.program, measurement.phase


def comparable(
    group: Sequence[Measurement], label: LabelOf, reference: str
) -> tuple[list[Measurement], tuple[Exclusion, ...]]:
    """Split into the measurements that can be compared and those that cannot.

    The others must be tied to ``reference``, or to what was measured most often where that is not
    valid.
    """
    invalid = [Exclusion(measurement=m, label=label(m)) for m in group if not m.valid]
    valid = observations([m for m in group if m.valid], label)
    if not valid:
        return [], tuple(invalid)
    source = Counter(m.windows[0].source for m in valid).most_common(1)[0][0]
    mixed = f"Its energy is not from the {source}, as that of most others is."
    alike, others = _split(valid, [m.windows[0].source == source for m in valid], label, mixed)
    alike, beyond = _split(alike, held_by_all(alike), label, BEYOND)
    labels, boards = [label(m) for m in alike], [m.device.uuid for m in alike]
    hub = reference if reference in labels else Counter(labels).most_common(1)[0][0]
    apart = f"Its board shares no operating point with those that ran {hub}."
    counted, loose = _split(alike, tied(labels, boards, hub), label, apart)
    return counted, (*invalid, *others, *beyond, *loose)


def _split(
    measurements: Sequence[Measurement], is_kept: Sequence[bool], label: LabelOf, why: str
) -> tuple[list[Measurement], list[Exclusion]]:
    pairs = list(zip(measurements, is_kept, strict=True))
    others = [m for m, yes in pairs if not yes]
    return (
        [m for m, yes in pairs if yes],
        [Exclusion(measurement=m, label=label(m), why=why) for m in others],
    )


def fit_quantities(
    counted: Sequence[Measurement],
    label: LabelOf,
    objective: Objective = EDP,
    *,
    effect: TemperatureEffect | None = None,
) -> Fits:
    """Fit energy, time and their products to measurements that are :func:`comparable`.

    With an ``effect`` energies are put to its reference temperature.
    """
    labels = [label(m) for m in counted]
    boards = [m.device.uuid for m in counted]
    is_recorded = all(m.recording for m in counted)
    lines = lines_of({label(m): m.configuration for m in counted})
    energy = np.log([m.energy_per_unit_j for m in counted])
    time = np.log([m.time_per_unit_s for m in counted])
    energy_u = np.array([m.energy_per_unit_u_j / m.energy_per_unit_j for m in counted])
    time_u = np.array([m.time_per_unit_u_s / m.time_per_unit_s for m in counted])
    errors = np.zeros(len(set(labels)))  # that energies share
    if effect is not None:
        energy, errors = effect.corrected(energy, counted), effect.errors(labels, counted, lines)

    def fit(of: Objective) -> AdditiveFit:
        e, t = of.energy_exponent, of.time_exponent
        # Energy and time of a window may err together, so their uncertainties add up plainly.
        cost, cost_u = e * energy + t * time, e * energy_u + t * time_u
        found = fit_on_boards(labels, boards, cost.tolist(), cost_u.tolist(), lines)
        found = with_shared_errors(found, e * errors)
        if found.dof or not (is_recorded or found.is_open):
            return found
        return with_scatter(found, scatter_of(found, lines))  # nothing repeats, but along lines

    return {each: fit(each) for each in dict.fromkeys((ENERGY, TIME, EDP, ED2P, objective))}


def figures_by_label(
    fits: Fits | None,
    *,
    reference: str,
    members: Sequence[str],
    level: float,
    objective: Objective = EDP,
) -> dict[str, Figures]:
    """Return what each label costs; nothing without fits.

    Savings are against ``reference``, without which there are none. ``members`` are statistically
    indistinguishable from the lowest.
    """
    if fits is None:
        return {}
    energy, time, edp, ed2p, aim = (fits[of] for of in (ENERGY, TIME, EDP, ED2P, objective))
    labels = energy.configurations
    costs = np.column_stack([energy.estimate, time.estimate])
    on_front = dict(zip(labels, non_dominated(costs).tolist(), strict=True))
    found = {}
    for label in labels:
        energy_j, time_s = energy.value(label), time.value(label)
        edp_js, ed2p_js2, cost = (fit.value(label) for fit in (edp, ed2p, aim))
        saving = slowdown = None
        if reference in labels:
            saving = less(energy.ratio(label, reference, level=level))
            slowdown = more(time.ratio(label, reference, level=level))
        found[label] = Figures(
            power_w=energy_j / time_s,
            energy_per_unit_j=energy_j,
            energy_per_unit_u_j=energy_j * energy.relative_u(label),
            time_per_unit_s=time_s,
            time_per_unit_u_s=time_s * time.relative_u(label),
            edp_js=edp_js,
            edp_u_js=edp_js * edp.relative_u(label),
            ed2p_js2=ed2p_js2,
            ed2p_u_js2=ed2p_js2 * ed2p.relative_u(label),
            cost=cost,
            cost_u=cost * aim.relative_u(label),
            saving=saving,
            slowdown=slowdown,
            in_set=label in members,
            on_front=on_front[label],
        )
    return found


def drifts_of(counted: Sequence[Measurement], label: LabelOf, level: float) -> tuple[Drift, ...]:
    """Return the trend of the sentinels' energy on each board."""
    watched = {label(m) for m in counted if m.sentinel}
    seen = grouped_by((m for m in counted if label(m) in watched), lambda m: m.device.uuid)
    return tuple(
        fit_drift(board, _times_s(ms), [log(m.energy_per_unit_j) for m in ms], level=level)
        for board, ms in sorted(seen.items())
    )


def observed_clock_mhz(measurements: Sequence[Measurement]) -> float | None:
    """Return the median SM clock under load, of the valid ones if there are any."""
    trusted = [m for m in measurements if m.valid] or measurements
    clocks = [m.observed.sm_clock_mhz for m in trusted if m.observed.sm_clock_mhz is not None]
    return median(clocks) if clocks else None


def observations(valid: Sequence[Measurement], label: LabelOf) -> list[Measurement]:
    """Keep one measurement of each recording: played again, it is no second observation."""
    kept: dict[object, Measurement] = {}
    for m in valid:
        again = (label(m), m.device.uuid, m.recording)
        kept.setdefault(again if m.recording else m.measurement_id, m)
    return list(kept.values())


def _times_s(measurements: Sequence[Measurement]) -> list[float]:
    """Return when each was measured: by the board's own clock, unless that was ever restarted."""
    wall_s = [datetime.fromisoformat(m.provenance.started_at).timestamp() for m in measurements]
    own_s = [m.windows[0].start_s for m in measurements]
    in_order = [own_s[i] for i in np.argsort(wall_s, kind="stable")]
    return own_s if in_order == sorted(own_s) else wall_s
