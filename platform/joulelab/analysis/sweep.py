"""What a sweep found: every operating point with its error bars, and the set that may be best."""

from dataclasses import dataclass

from joulelab.core.additive import Interval
from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceIdentity
from joulelab.core.drift import Drift
from joulelab.core.measurement import Finding
from joulelab.core.point import OperatingPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an operating point costs, on the average board, per unit of work.

    Uncertainties are standard ones (k = 1) from repeats and readings. The sensor's own class
    (some 5 % between boards) is common to all points and not in them.

    Attributes:
        power_w: Mean board power under load, in watts.
        energy_per_unit_j: Energy, in joules (gross, idle power included).
        energy_per_unit_u_j: Its standard uncertainty.
        time_per_unit_s: Time, in seconds.
        time_per_unit_u_s: Its standard uncertainty.
        edp_js: Energy-delay product, in joule-seconds.
        edp_u_js: Its standard uncertainty.
        ed2p_js2: Energy-delay-squared product, in joule-square-seconds.
        ed2p_u_js2: Its standard uncertainty.
        saving: Share of energy saved against the default point (0.2 is 20 % less), with its
            confidence interval; ``None`` without a valid default.
        slowdown: Relative time added against the default point (0.02 is 2 % more), likewise.
        in_set: Whether it cannot be told apart from the best.
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
    saving: Interval | None
    slowdown: Interval | None
    in_set: bool
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One operating point of a sweep.

    Attributes:
        point: What was requested.
        num_valid: Measurements that count.
        num_invalid: Measurements that broke the validity contract.
        reasons: Why they did, each reason once.
        observed_clock_mhz: Median SM clock under load; ``None`` if unread.
        power_cap_share: Mean share of the time (0 to 1) that the power cap held the clocks
            down; ``None`` if unread.
        figures: What it costs; ``None`` without a valid measurement.
    """

    point: OperatingPoint
    num_valid: int
    num_invalid: int
    reasons: tuple[str, ...]
    observed_clock_mhz: float | None
    power_cap_share: float | None
    figures: Figures | None

    @property
    def power_capped(self) -> bool:
        """Whether the power cap, not the request, set the clock for over 1 % of the time."""
        return self.power_cap_share is not None and self.power_cap_share > 0.01

    @property
    def clock_mhz(self) -> float | None:
        """The clock to draw it at: as requested, else as observed."""
        requested = self.point.sm_clock_mhz
        return self.observed_clock_mhz if requested is None else float(requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A measurement that does not count.

    Attributes:
        measurement_id: Which.
        label: Operating point.
        board: UUID of the board.
        findings: What was wrong with it.
        why: Why it was left out, where its findings do not say.
    """

    measurement_id: str
    label: str
    board: str
    findings: tuple[Finding, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """One phase of one workload with one set of knobs, on boards of one product.

    Attributes:
        workload: Name of the workload.
        knobs: Its knobs.
        phase: The phase.
        unit: Unit of work, in the singular.
        device_name: Product name of the boards.
        boards: The boards.
        objective: What was minimised.
        level: Confidence level of intervals and of the set.
        rows: Operating points: the default first, then by descending clock.
        best: Label of the point of lowest objective; ``None`` without a valid measurement.
        members: Labels of the points that cannot be told apart from it, itself included, the
            lowest objective first.
        repeat_sd: Relative standard deviation of one measurement's energy about the fit;
            ``None`` if nothing was repeated.
        dof: Degrees of freedom behind ``repeat_sd``.
        drifts: Trend of the sentinels on each board.
        exclusions: Measurements that do not count.
        source: Where energies come from, ``"counter"`` or ``"samples"``; ``""`` for none.
    """

    workload: str
    knobs: tuple[tuple[str, KnobValue], ...]
    phase: str
    unit: str
    device_name: str
    boards: tuple[DeviceIdentity, ...]
    objective: str
    level: float
    rows: tuple[SweepRow, ...]
    best: str | None
    members: tuple[str, ...]
    repeat_sd: float | None
    dof: int
    drifts: tuple[Drift, ...]
    exclusions: tuple[Exclusion, ...]
    source: str

    @property
    def title(self) -> str:
        """Workload and phase, short."""
        return self.workload if self.phase == self.workload else f"{self.workload} {self.phase}"

    @property
    def default(self) -> SweepRow | None:
        """Row of the driver's default point; ``None`` if it was not measured."""
        return next((row for row in self.rows if row.point.is_default), None)

    def row(self, label: str) -> SweepRow:
        """Return the row of the point called ``label``."""
        return next(row for row in self.rows if row.point.label == label)

    @property
    def measured(self) -> tuple[tuple[SweepRow, Figures], ...]:
        """Rows that have figures, with them."""
        return tuple((row, row.figures) for row in self.rows if row.figures is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What a sweep found, phase by phase.

    Attributes:
        study: Name of the study.
        phases: One entry for each workload, set of knobs, phase and product.
    """

    study: str
    phases: tuple[PhaseResult, ...]
