"""A live view in OpenMetrics: names with units, and no sample where there is no reading."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from joulelab.core.device import DeviceState
from joulelab.live.activity import Activity
from joulelab.live.reading import LiveReading, LiveSession, LiveView
from joulelab.tracking.study import StudyState

SLOW_PERIOD_S = 1.4
"""Period of the energy counter; with :data:`FRESH_S` no value is older than two seconds."""
FRESH_S = 0.5
"""Scrapes that follow each other faster are answered from one look."""

GPU_LABELS = ("gpu", "uuid", "hostname")


class Gauge(NamedTuple):
    """One number per GPU."""

    name: str  # without the unit, which follows it
    unit: str  # OpenMetrics unit, in the plural; empty for none
    help: str
    value: Callable[[LiveReading], float | None]  # takes it from a reading; None if not there
    is_total: bool = False  # whether it only grows, but for new starts

    def family(self) -> Metric:
        """Make its family, without samples."""
        kind = CounterMetricFamily if self.is_total else GaugeMetricFamily
        return kind(self.name, self.help, labels=GPU_LABELS, unit=self.unit)


def _state(value: Callable[[DeviceState], float | None]) -> Callable[[LiveReading], float | None]:
    return lambda gpu: None if gpu.state is None else value(gpu.state)


def _hertz(clock_mhz: int | None) -> float | None:
    return None if clock_mhz is None else 1e6 * clock_mhz


GAUGES = (
    Gauge("joulelab_gpu_power", "watts", "Board power now.", lambda gpu: gpu.power_w),
    Gauge(
        "joulelab_gpu_energy",
        "joules",
        "The driver's energy counter, since an origin of its own.",
        lambda gpu: gpu.energy_j,
        is_total=True,
    ),
    Gauge(
        "joulelab_gpu_power_limit",
        "watts",
        "Power limit in force.",
        _state(lambda state: state.power_limit_w),
    ),
    Gauge(
        "joulelab_gpu_sm_clock",
        "hertz",
        "SM clock now.",
        _state(lambda state: _hertz(state.sm_clock_mhz)),
    ),
    Gauge(
        "joulelab_gpu_memory_clock",
        "hertz",
        "Memory clock now.",
        _state(lambda state: _hertz(state.mem_clock_mhz)),
    ),
    Gauge(
        "joulelab_gpu_temperature",
        "celsius",
        "Temperature of the GPU.",
        _state(lambda state: state.temperature_c),
    ),
    Gauge(
        "joulelab_gpu_utilization",
        "ratio",
        "Share of the driver's last sample period in which a kernel ran.",
        _state(lambda state: state.gpu_utilization),
    ),
    Gauge(
        "joulelab_gpu_memory_used",
        "bytes",
        "Device memory in use by whomever.",
        _state(lambda state: state.memory_used_b),
    ),
    Gauge(
        "joulelab_gpu_processes",
        "",
        "Processes that hold a compute context on the GPU.",
        lambda gpu: None if gpu.processes is None else len(gpu.processes),
    ),
)


@dataclass(frozen=True, slots=True)
class _Families:
    """Families of one scrape, without samples at first."""

    def __iter__(self) -> Iterator[Metric]:
        return (getattr(self, each.name) for each in fields(self))


@dataclass(frozen=True, slots=True)
class Families(_Families):
    """The families that have more labels than a GPU's."""

    info: InfoMetricFamily
    throttled: GaugeMetricFamily
    unread: GaugeMetricFamily
    leased: GaugeMetricFamily
    unrestored: GaugeMetricFamily
    guard: GaugeMetricFamily

    @classmethod
    def empty(cls) -> "Families":
        """Make them without samples."""

        def family(name: str, help_: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"joulelab_{name}", help_, labels=(*GPU_LABELS, *labels))

        return cls(
            info=InfoMetricFamily("joulelab_gpu", "Product and driver.", labels=GPU_LABELS),
            throttled=family("gpu_throttled", "1 while the reason slows the GPU.", "reason"),
            unread=family("gpu_unread", "1 for what could not be read.", "sensor"),
            leased=family("gpu_leased", "1 while its clocks are on loan.", "holder", "note"),
            unrestored=family("gpu_unrestored", "1 while a loan's settings are still in force."),
            guard=GaugeMetricFamily(
                "joulelab_guard_answers",
                "Whether the clock guard, which knows of loans, answers.",
                labels=("hostname",),
            ),
        )

    def add(self, gpu: LiveReading, view: LiveView, labels: tuple[str, ...]) -> None:
        """Add what a view shows of one GPU."""
        identity = gpu.identity
        self.info.add_metric(
            labels, {"name": identity.name, "driver_version": identity.driver_version}
        )
        for reason, holds in (gpu.throttles or {}).items():
            self.throttled.add_metric((*labels, str(reason.name).lower()), int(holds))
        for sensor in gpu.unread:
            self.unread.add_metric((*labels, sensor), 1)
        if (lease := view.loans.by_uuid.get(identity.uuid)) is not None:
            holder = f"pid {lease.pid} of uid {lease.uid}"
            self.leased.add_metric((*labels, holder, lease.note), 1)
        if identity.uuid in view.loans.unrestored:
            self.unrestored.add_metric(labels, 1)


@dataclass(frozen=True, slots=True)
class TrialFamilies(_Families):
    """The families that are about trials."""

    trial: InfoMetricFamily  # which trial a GPU measures
    start: GaugeMetricFamily  # since when
    ended: CounterMetricFamily  # how many its process has ended
    energy: GaugeMetricFamily  # energy in the windows of the trial that ended last
    unit_energy: GaugeMetricFamily  # its energy per unit of work
    invalid: GaugeMetricFamily  # why it has none
    saved: GaugeMetricFamily  # share of the energy that the best point so far saves on the board
    added: GaugeMetricFamily  # share of the time that it adds
    planned: GaugeMetricFamily  # trials of a study
    done: GaugeMetricFamily  # those that need no further try
    failed: GaugeMetricFamily  # those that were given up

    @classmethod
    def empty(cls) -> "TrialFamilies":
        """Make them without samples."""
        of_gpu = (*GPU_LABELS, "study")

        def of_trial(name: str, help_: str, *labels: str, unit: str = "") -> GaugeMetricFamily:
            labels = (*of_gpu, *labels)
            return GaugeMetricFamily(f"joulelab_trial_{name}", help_, labels=labels, unit=unit)

        def of_best(name: str, does: str) -> GaugeMetricFamily:
            what = f"What the point of least energy so far {does} at the driver's clocks."
            return of_trial(name, what, "point", unit="ratio")

        def of_study(name: str, help_: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"joulelab_{name}", help_, labels=("hostname", "study"))

        return cls(
            trial=InfoMetricFamily("joulelab_trial", "What is measured now.", labels=GPU_LABELS),
            start=of_trial("start_timestamp", "When that trial began.", unit="seconds"),
            ended=CounterMetricFamily(
                "joulelab_trials_ended", "Trials that its process has ended.", labels=of_gpu
            ),
            energy=of_trial("energy", "In the windows of the last trial.", unit="joules"),
            unit_energy=of_trial(
                "unit_energy", "Per unit of work of the last trial.", "unit", unit="joules"
            ),
            invalid=of_trial("invalid", "1 while the last trial is invalid.", "reason"),
            saved=of_best("energy_saved", "saves of that"),
            added=of_best("time_added", "adds to the time"),
            planned=of_study("study_trials", "Trials of the study."),
            done=of_study("study_trials_done", "Trials that need no further try."),
            failed=of_study("study_trials_failed", "Trials given up without a measurement."),
        )

    def add(self, activity: Activity, gpu: tuple[str, ...]) -> None:
        """Add what is done on one GPU, whose labels are ``gpu``."""
        if (study := activity.study) is None:
            return
        labels = (*gpu, study)
        if activity.trial is not None:
            self.trial.add_metric(gpu, {"study": study, "trial": activity.trial})
            self.start.add_metric(labels, activity.since_unix_s)
        self.ended.add_metric(labels, activity.num_measured)
        if (last := activity.last) is not None and last.reason is not None:
            self.invalid.add_metric((*labels, last.reason.partition(":")[0]), 1)
        elif last is not None and last.energy_j is not None and last.energy_per_unit_j is not None:
            self.energy.add_metric(labels, last.energy_j)
            self.unit_energy.add_metric((*labels, last.unit), last.energy_per_unit_j)
        if (saving := activity.saving) is not None:
            self.saved.add_metric((*labels, saving.point), 1 - saving.energy_ratio)
            self.added.add_metric((*labels, saving.point), saving.time_ratio - 1)

    def add_study(self, state: StudyState, hostname: str) -> None:
        """Add how far a study is."""
        labels = (hostname, state.study)
        if state.num_trials is not None:
            self.planned.add_metric(labels, state.num_trials)
        self.done.add_metric(labels, state.num_done)
        self.failed.add_metric(labels, len(state.failed))


class LiveCollector(Collector):
    """Looks at GPUs when it is scraped, and never in between."""

    def __init__(self, session: LiveSession, hostname: str | None = None) -> None:
        self._session = session
        self._hostname = hostname or socket.gethostname()
        self._turn = threading.Lock()
        self._view: LiveView | None = None
        self._looked_s = 0.0

    def describe(self) -> Iterator[Metric]:
        """Return all families, without samples."""
        yield from (gauge.family() for gauge in GAUGES)
        yield from Families.empty()
        yield from TrialFamilies.empty()

    @override
    def collect(self) -> Iterator[Metric]:
        view = self._fresh_view()
        for gauge in GAUGES:
            family = gauge.family()
            for gpu in view.gpus:
                if (value := gauge.value(gpu)) is not None:
                    family.add_metric(self._labels(gpu), value)  # type: ignore[attr-defined]
            yield family
        families = Families.empty()
        for gpu in view.gpus:
            families.add(gpu, view, self._labels(gpu))
        families.guard.add_metric((self._hostname,), int(view.loans.unread is None))
        yield from families
        yield from self._trials(view)

    def _trials(self, view: LiveView) -> TrialFamilies:
        trials = TrialFamilies.empty()
        for gpu in view.gpus:
            if gpu.identity.uuid in view.activities:
                trials.add(view.activities[gpu.identity.uuid], self._labels(gpu))
        for state in view.studies.values():
            trials.add_study(state, self._hostname)
        return trials

    def _labels(self, gpu: LiveReading) -> tuple[str, ...]:
        return str(gpu.index), gpu.identity.uuid, self._hostname

    def _fresh_view(self) -> LiveView:
        with self._turn:
            if self._view is None or time.monotonic() - self._looked_s > FRESH_S:
                self._view = self._session.look()
                self._looked_s = time.monotonic()
            return self._view


def registry_of(session: LiveSession) -> CollectorRegistry:
    """Return what to serve: the GPUs, and what serving them costs this process."""
    registry = CollectorRegistry()
    registry.register(LiveCollector(session))
    ProcessCollector(registry=registry)
    return registry
