"""What a sweep found: every operating point with its error bars, and the set that may be best."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from joulelab.core.additive import Interval
from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceIdentity
from joulelab.core.drift import Drift
from joulelab.core.measurement import Finding
from joulelab.core.point import OperatingPoint
from joulelab.core.validity import MAX_THROTTLE_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an operating point costs, on the average board, per unit of work.

    Uncertainties are standard ones (k = 1) from repeats and readings. The sensor's own class
    (some 5 % between boards) is common to all points and not in them.

    Attributes:
        power_w: Mean board power under load, in watts.
        energy_per_unit_j: Energy, in joules (gross, idle power included).
        cost: The objective, in its unit.
        saving: Share of energy saved against the default point (0.2 is 20 % less), with its
            confidence interval; ``None`` without a valid default.
        slowdown: Relative time added against the default point (0.02 is 2 % more), likewise.
        on_front: Whether no other point takes both less energy and less time.
    """

    power_w: float
    energy_per_unit_j: float
    energy_per_unit_u_j: float
    time_per_unit_s: float
    time_per_unit_u_s: float
    edp_js: float
    edp_u_js: float
    ed2p_js2: float
    ed2p_u_js2: float
    cost: float
    cost_u: float
    saving: Interval | None
    slowdown: Interval | None
    in_set: bool
    on_front: bool

    @property
    def energy_ratio(self) -> Interval | None:
        """Energy over that of the default point; ``None`` without a valid default."""
        s = self.saving
        return s and Interval(value=1 - s.value, low=1 - s.high, high=1 - s.low)

    @property
    def time_ratio(self) -> Interval | None:
        """Time over that of the default point; likewise."""
        s = self.slowdown
        return s and Interval(value=1 + s.value, low=1 + s.low, high=1 + s.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is compared, in one phase.

    Attributes:
        num_valid: Measurements that count.
        num_invalid: Measurements that broke the validity contract, or could not be made.
        observed_clock_mhz: Median SM clock under load; ``None`` if unread.
        power_cap_share: Mean share of the time (0 to 1) that the power cap held the clocks
            down; ``None`` if unread.
        figures: What it costs; ``None`` without a valid measurement.
    """

    num_valid: int
    num_invalid: int
    observed_clock_mhz: float | None
    power_cap_share: float | None
    figures: Figures | None


RowT_co = TypeVar("RowT_co", bound=Row, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow(Row):
    """One operating point of a sweep.

    Attributes:
        reported: What the workload reported of its own work, such as a server's latencies: means
            of the measurements that count, by name.
    """

    point: OperatingPoint
    reasons: tuple[str, ...]
    reported: tuple[tuple[str, float], ...] = ()

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
class Exclusion:
    """A measurement that does not count, and why, where its findings do not say."""

    measurement_id: str
    label: str
    board: str
    findings: tuple[Finding, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(Generic[RowT_co]):
    """One phase of one workload, on boards of one product.

    Attributes:
        unit: Unit of work, in the singular.
        drifts: Trend of the sentinels on each board.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult(Phase[SweepRow]):
    """One phase of a sweep; its operating points are the default, then by descending clock.

    Attributes:
        recommended: Label of the point to use, the fastest of ``members``, or the driver's default
            if that is among them; ``None`` without a valid measurement. Where the optimum is flat
            this stays put, while ``lowest`` goes with the noise.
        lowest: Label of the point of lowest objective; ``None`` likewise.
        members: The confidence set: labels of the points that are statistically
            indistinguishable from the lowest, itself included, the lowest objective first.
        repeat_sd: Relative standard deviation of one measurement's energy about the fit;
            ``None`` if nothing was repeated.
        source: Where energies come from, ``"counter"`` or ``"samples"``; ``""`` for none.
    """

    knobs: tuple[tuple[str, KnobValue], ...]
    objective: str
    recommended: str | None
    lowest: str | None
    members: tuple[str, ...]
    repeat_sd: float | None
    dof: int
    source: str

    @property
    def default(self) -> SweepRow | None:
        """Row of the driver's default point; ``None`` if it was not measured."""
        return next((row for row in self.rows if row.point.is_default), None)

    def row(self, label: str) -> SweepRow:
        """Return the row of the point called ``label``."""
        return next(row for row in self.rows if row.point.label == label)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What a sweep found: a phase for each workload, set of knobs, phase and product."""

    study: str
    phases: tuple[PhaseResult, ...]
