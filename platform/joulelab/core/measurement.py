"""One result: what ran, where, at which point, what it cost, and whether to believe it."""

from dataclasses import dataclass, field
from math import isfinite, sqrt
from statistics import fmean
from typing import Literal, get_args

from joulelab.core.configuration import Configuration
from joulelab.core.device import Activity, DeviceIdentity
from joulelab.core.energy import EnergyWindow, mean_u_j
from joulelab.core.point import Receipt
from joulelab.core.procedure import Pace
from joulelab.core.quality import Quality
from joulelab.core.statistics import mean_u
from joulelab.errors import ConfigError, MeasurementError

SCHEMA_VERSION = 1

InvalidReason = Literal[
    "actor_died",
    "clock_not_held",
    "counter_frozen",
    "counter_reset",
    "device_lost",
    "foreign_process",
    "foreign_setting",
    "lease_lost",
    "not_allowed",
    "not_cooled",
    "not_steady",
    "permission_denied",
    "power_capped",
    "sample_gap",
    "sources_disagree",
    "thermal_drift",
    "throttled",
    "too_short",
    "unsupported",
    "workload_failed",
]
"""Why a measurement must not be believed."""

_LASTING: frozenset[InvalidReason] = frozenset({"power_capped"})
"""What measuring again would find again: it lies in what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the validity contract found wrong."""

    reason: InvalidReason  # which clause failed
    detail: str  # what was required and what was seen, one sentence

    def __post_init__(self) -> None:
        if self.reason not in get_args(InvalidReason):
            raise ConfigError(f"reason must be one of {get_args(InvalidReason)}: {self.reason!r}.")

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the device did while the windows ran, as read back from it."""

    sm_clock_mhz: float | None = None  # median SM clock under load; None if unread
    # Share of the looks (0 to 1) at which the SM clock was within 15 MHz of the requested one; None
    # where none was requested.
    clock_residency: float | None = None
    mem_clock_mhz: float | None = None  # median memory clock; None if unread
    # GPU temperature at the start, in degrees Celsius; _stop_ at the end.
    temperature_start_c: float | None = None
    temperature_stop_c: float | None = None
    # Share of the time (0 to 1) that the power cap held the clocks down.
    power_cap_share: float | None = None
    thermal_share: float | None = None  # the same for thermal slowdown
    memory_power_w: float | None = None  # mean power of the memory, in watts; None if unread
    # Energy of all windows from the power samples, in joules, for comparison with the counter; None
    # where there were no samples.
    samples_energy_j: float | None = None
    # Seconds of warm-up before the first window, and whether that ended steady.
    warmup_s: float | None = None
    warmup_steady: bool | None = None
    sampler_share: float | None = None  # share of one core (0 to 1) that the sampler took
    # Mean unit activities; all None where unread.
    activity: Activity = field(default_factory=Activity)
    # Most device memory in use on the whole board, in bytes, without what the driver reserves; None
    # if unread.
    memory_used_b: int | None = None
    power_limit_w: float | None = None  # board power limit in force, in watts; None if unread
    # Backend that counted them in the place of the device's own; None where that did it itself, or
    # nobody.
    activity_source: str | None = None
    # Mean share of the time (0 to 1) in which a kernel ran, as the driver tells it; None if unread.
    gpu_utilization: float | None = None
    memory_utilization: float | None = None  # the same for device memory that was read or written
    # Share of the looks (0 to 1), between units of work, at which other work slowed the core that
    # launches it; None in virtual time, of several GPUs, and of few looks.
    host_disturbed_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a result came from, so that it can be made again."""

    joulelab_version: str
    git_sha: str | None  # commit of the checkout, "-dirty" if it differed; None outside one
    hostname: str  # of the machine that held the device
    python_version: str
    started_at: str  # wall time, ISO 8601 in UTC
    torch_version: str | None = None  # None where PyTorch took no part
    slurm_job_id: str | None = None
    ray_job_id: str | None = None
    weights: str | None = None  # "random" or where a model's came from; None without a model
    licence: str | None = None  # of what was run, and of what, if it is not a permissive one


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One of the boards that a measurement is of; its energy is in the sum."""

    device: DeviceIdentity
    windows: tuple[EnergyWindow, ...]  # as those of the measurement, of this board alone
    idle: EnergyWindow | None
    observed: Observed
    findings: tuple[Finding, ...]

    @property
    def known_energy_j(self) -> float | None:
        """Energy of its windows, in joules; ``None`` where a finding says why it is not known."""
        return None if self.findings else sum(window.energy_j for window in self.windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Windows of one phase of one workload at one operating point on one device.

    A measurement that broke the validity contract still says what was seen, but the numbers
    derived from its windows raise :class:`MeasurementError` with the findings.

    Attributes:
        measurement_id: Unique over all studies; a second delivery of it is the same result.
        study: Name of the study that asked for it.
        trial: Name of the trial within the study; a retried trial keeps it.
        attempt: 0 for the first try of the trial, then 1, 2, ...
        repeat: Which repeat of its configuration this is, from 0.
        sentinel: Whether it only watches for drift.
        configuration: What was requested.
        phase: Phase of the workload.
        unit: Unit of the work in the windows, in the singular.
        device: Which device it was.
        windows: Windows under load, all from the same source; empty only if invalid.
        idle: Idle window in the same process at the same clock; ``None`` if not taken.
        observed: What the device did meanwhile.
        findings: What the validity contract found wrong; empty if the measurement is valid.
        provenance: Where the result came from.
        schema_version: Version of this layout.
        quality: What the outputs are worth, one entry per metric; empty if not scored.
        receipt: What was in force right after the operating point was; ``None`` if it never was.
        figures: What the workload stated of the work in the windows, sorted by name.
        recording: Name of the observation that was replayed; ``None`` for a program that ran.
        pace: From rest, or right after the same program ran at another point.
        boards: Each board apart, where they are several; windows, idle and findings are then of all
            of them, and ``device`` is the first.
    """

    measurement_id: str
    study: str
    trial: str
    configuration: Configuration
    phase: str
    unit: str
    device: DeviceIdentity
    windows: tuple[EnergyWindow, ...]
    idle: EnergyWindow | None
    observed: Observed
    findings: tuple[Finding, ...]
    provenance: Provenance
    attempt: int = 0
    repeat: int = 0
    sentinel: bool = False
    schema_version: int = SCHEMA_VERSION
    quality: tuple[Quality, ...] = ()
    receipt: Receipt | None = None
    figures: tuple[tuple[str, float], ...] = ()
    recording: str | None = None
    pace: Pace = "reference"
    boards: tuple[Board, ...] = ()

    def __post_init__(self) -> None:
        if not (self.windows or self.findings):
            raise ConfigError("A measurement without windows must carry a finding that says why.")
        sources = {window.source for window in self.windows}
        if len(sources) > 1:
            raise ConfigError(f"windows mix energy sources {sorted(sources)}.")
        if any(window.work <= 0 for window in self.windows):
            raise ConfigError("Every window under load must have done some work.")
        scored = [quality.metric for quality in self.quality]
        if len(scored) != len(set(scored)):
            raise ConfigError(f"quality must have one entry per metric, got {scored}.")
        names = [name for name, _ in self.figures]
        if names != sorted(set(names)) or not all(isfinite(value) for _, value in self.figures):
            raise ConfigError(f"figures must be finite, sorted, without doubles: {self.figures}.")

    @property
    def valid(self) -> bool:
        """Whether every clause of the validity contract held."""
        return not self.findings

    @property
    def settled(self) -> bool:
        """Whether measuring again would say the same: it is valid, or cannot be."""
        return all(finding.reason in _LASTING for finding in self.findings)

    @property
    def energy_per_unit_j(self) -> float:
        """Energy per unit of work over all windows, in joules (gross, idle power included)."""
        return sum(w.energy_j for w in self._trusted()) / self.work

    @property
    def energy_per_unit_u_j(self) -> float:
        """Standard uncertainty of :attr:`energy_per_unit_j`, in joules.

        The larger of the scatter of the windows about their mean and of what the readings
        explain: neither a lucky pair of windows nor a coarse counter makes it too small.
        """
        windows = self._trusted()
        return max(mean_u_j(windows, [w.energy_j / w.work for w in windows]))

    @property
    def time_per_unit_s(self) -> float:
        """Time per unit of work over all windows, in seconds."""
        return sum(w.duration_s for w in self._trusted()) / self.work

    @property
    def time_per_unit_u_s(self) -> float:
        """Standard uncertainty of :attr:`time_per_unit_s` from the scatter of the windows."""
        return mean_u([w.duration_s / w.work for w in self._trusted()])

    @property
    def power_w(self) -> float:
        """Mean board power under load, in watts."""
        return self.energy_per_unit_j / self.time_per_unit_s

    @property
    def idle_power_w(self) -> float | None:
        """Idle power in the same process at the same clock, in watts; ``None`` if not taken."""
        self._trusted()
        return None if self.idle is None else self.idle.power_w

    @property
    def dynamic_energy_per_unit_j(self) -> float | None:
        """Energy per unit above idle, in joules; ``None`` where idle was not taken."""
        idle_power_w = self.idle_power_w
        if idle_power_w is None:
            return None
        return self.energy_per_unit_j - idle_power_w * self.time_per_unit_s

    @property
    def edp_js(self) -> float:
        """Energy-delay product per unit of work squared, in joule-seconds.

        Horowitz, Indermaur and Gonzalez, "Low-power digital design", SLPE 1994.
        """
        return self.energy_per_unit_j * self.time_per_unit_s

    @property
    def ed2p_js2(self) -> float:
        """Energy-delay-squared product per unit of work cubed, in joule-square-seconds."""
        return self.energy_per_unit_j * self.time_per_unit_s**2

    @property
    def work(self) -> float:
        """Units of work over all windows."""
        return sum(w.work for w in self._trusted())

    @property
    def window_cv(self) -> float:
        """Coefficient of variation of energy per unit between windows.

        Raises MeasurementError for fewer than two windows: one window has no scatter.
        """
        per_unit_j = [w.energy_j / w.work for w in self._trusted()]
        if len(per_unit_j) < 2:
            raise MeasurementError("window_cv needs at least two windows.")
        return mean_u(per_unit_j) * sqrt(len(per_unit_j)) / fmean(per_unit_j)

    @property
    def reason(self) -> str:
        """Why it must not be believed; empty if it is valid."""
        return "; ".join(map(str, self.findings))

    def _trusted(self) -> tuple[EnergyWindow, ...]:
        if self.findings:
            raise MeasurementError(f"Measurement {self.measurement_id} is invalid: {self.reason}")
        return self.windows
