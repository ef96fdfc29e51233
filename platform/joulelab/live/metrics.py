"""A live view in OpenMetrics: names with units, and no sample where there is no reading."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from joulelab.live.activity import TrialActivity
from joulelab.live.reading import LiveReading, LiveSession, LiveView

PERIOD_S = 1.8
"""Time between two looks: no value is two seconds old when it is read."""
COUNTER_PERIOD_S = 30.0
"""Eight reads of an H200's energy counter in it take 0.1 % of a processor."""
_FRESH_S = 1.4
"""Scrapes are answered from a look that is no older; those of every 1.5 s have each their own."""
_LINGER_S = 30.0

GPU_LABELS = ("gpu", "uuid", "hostname")
_STUDY_LABELS = ("hostname", "study")

Sample = tuple[tuple[str, ...], Any]
"""Values of labels, and a number; of information, its words by their names."""
Found = dict[str, list[Sample]]  # samples by the names of their families
Add = Callable[..., None]
"""Adds values of families, by their names, under the same labels; ``None`` is no sample."""


class Family(NamedTuple):
    """What is served under one name."""

    name: str  # after "joulelab_", without the unit, which follows it
    unit: str  # OpenMetrics unit, in the plural; empty for none
    help: str
    labels: tuple[str, ...] = GPU_LABELS
    kind: type[Any] = GaugeMetricFamily

    def filled(self, samples: Iterable[Sample] = ()) -> Metric:
        """Make it, with samples."""
        unit = {"unit": self.unit} if self.unit else {}  # information takes none
        made: Metric = self.kind(f"joulelab_{self.name}", self.help, labels=self.labels, **unit)
        for labels, value in samples:
            made.add_metric(labels, value)  # type: ignore[attr-defined]
        return made


def _of_trial(
    name: str, unit: str, text: str, *labels: str, kind: type = GaugeMetricFamily
) -> Family:
    return Family(name, unit, text, (*GPU_LABELS, "study", *labels), kind)


_BEST = "What the point of least energy so far {} at the driver's clocks."
FAMILIES = (
    Family("gpu_power", "watts", "Board power; of the last second where the driver averages it."),
    Family(
        "gpu_energy",
        "joules",
        "The driver's energy counter, since an origin of its own.",
        kind=CounterMetricFamily,
    ),
    Family("gpu_power_limit", "watts", "Power limit in force."),
    Family("gpu_sm_clock", "hertz", "SM clock now."),
    Family("gpu_memory_clock", "hertz", "Memory clock now."),
    Family("gpu_temperature", "celsius", "Temperature of the GPU."),
    Family(
        "gpu_utilization",
        "ratio",
        "Share of the driver's last sample period in which a kernel ran.",
    ),
    Family("gpu_memory_used", "bytes", "Device memory in use by whomever."),
    Family("gpu_processes", "", "Processes that hold a compute context on the GPU."),
    Family("gpu", "", "Product and driver.", kind=InfoMetricFamily),
    Family("gpu_throttled", "", "1 while the reason slows the GPU.", (*GPU_LABELS, "reason")),
    Family("gpu_unread", "", "1 for what could not be read.", (*GPU_LABELS, "sensor")),
    Family("gpu_leased", "", "1 while its clocks are on loan.", (*GPU_LABELS, "holder", "note")),
    Family("gpu_unrestored", "", "1 while a loan's settings are still in force."),
    Family(
        "guard_answers",
        "",
        "Whether the clock guard, which knows of loans, answers.",
        ("hostname",),
    ),
    Family("trial", "", "What is measured now.", kind=InfoMetricFamily),
    _of_trial("trial_start_timestamp", "seconds", "When that trial began."),
    _of_trial("trials_ended", "", "Trials that its process has ended.", kind=CounterMetricFamily),
    _of_trial("trial_energy", "joules", "In the windows of the last trial."),
    _of_trial("trial_unit_energy", "joules", "Per unit of work of the last trial.", "unit"),
    _of_trial("trial_invalid", "", "1 while the last trial is invalid.", "reason"),
    _of_trial("trial_energy_saved", "ratio", _BEST.format("saves of that"), "point"),
    _of_trial("trial_time_added", "ratio", _BEST.format("adds to the time"), "point"),
    Family("study_trials", "", "Trials of the study.", _STUDY_LABELS),
    Family("study_trials_done", "", "Trials that need no further try.", _STUDY_LABELS),
    Family("study_trials_failed", "", "Trials given up without a measurement.", _STUDY_LABELS),
)
"""What is served, in this order."""


def families_of(view: LiveView) -> Iterator[Metric]:
    """Return what is served of a view of this machine."""
    found = _samples_of(view, socket.gethostname())
    return (each.filled(found[each.name]) for each in FAMILIES)


def _samples_of(view: LiveView, hostname: str) -> Found:
    found: Found = {each.name: [] for each in FAMILIES}

    def add(labels: tuple[str, ...], **values: Any) -> None:
        for name, value in values.items():
            if value is not None:
                found[name].append((labels, value))

    for gpu in view.gpus:
        labels = str(gpu.index), gpu.identity.uuid, hostname
        _add_gpu(add, labels, gpu)
        _add_loan(add, labels, gpu.identity.uuid, view)
        if (activity := view.activities.get(gpu.identity.uuid)) is not None:
            _add_activity(add, labels, activity)
    add((hostname,), guard_answers=int(view.loans.unread is None))
    for state in view.studies.values():
        add(
            (hostname, state.study),
            study_trials=state.num_trials,
            study_trials_done=state.num_done,
            study_trials_failed=len(state.failed),
        )
    return found


def _add_gpu(add: Add, labels: tuple[str, ...], gpu: LiveReading) -> None:
    processes = None if gpu.processes is None else len(gpu.processes)
    add(labels, gpu_power=gpu.power_w, gpu_energy=gpu.energy_j, gpu_processes=processes)
    if (state := gpu.state) is not None:
        add(
            labels,
            gpu_power_limit=state.power_limit_w,
            gpu_sm_clock=_hertz(state.sm_clock_mhz),
            gpu_memory_clock=_hertz(state.mem_clock_mhz),
            gpu_temperature=state.temperature_c,
            gpu_utilization=state.gpu_utilization,
            gpu_memory_used=state.memory_used_b,
        )
    add(labels, gpu={"name": gpu.identity.name, "driver_version": gpu.identity.driver_version})
    for reason, holds in (gpu.throttles or {}).items():
        add((*labels, str(reason.name).lower()), gpu_throttled=int(holds))
    for sensor in gpu.unread:
        add((*labels, sensor), gpu_unread=1)


def _hertz(clock_mhz: int | None) -> float | None:
    return None if clock_mhz is None else 1e6 * clock_mhz


def _add_loan(add: Add, labels: tuple[str, ...], uuid: str, view: LiveView) -> None:
    if (lease := view.loans.by_uuid.get(uuid)) is not None:
        add((*labels, f"pid {lease.pid} of uid {lease.uid}", lease.note), gpu_leased=1)
    if uuid in view.loans.unrestored:
        add(labels, gpu_unrestored=1)


def _add_activity(add: Add, gpu: tuple[str, ...], activity: TrialActivity) -> None:
    if (study := activity.study) is None:
        return
    labels = (*gpu, study)
    if activity.trial is not None:
        add(gpu, trial={"study": study, "trial": activity.trial})
        add(labels, trial_start_timestamp=activity.since_unix_s)
    add(labels, trials_ended=activity.num_measured)
    if (last := activity.last) is not None and last.reason is not None:
        add((*labels, last.reason.partition(":")[0]), trial_invalid=1)
    elif last is not None:
        add(labels, trial_energy=last.energy_j)
        add((*labels, last.unit), trial_unit_energy=last.energy_per_unit_j)
    if (saving := activity.saving) is not None:
        at = (*labels, saving.point)
        add(at, trial_energy_saved=1 - saving.energy_ratio, trial_time_added=saving.time_ratio - 1)


class LiveCollector(Collector):
    """Looks at GPUs when it is scraped, and between scrapes that are further apart than a period.

    Without the latter, every scrape would find power averaged over too little of the time since the
    last one, and read all energy counters. Once nobody has scraped for long it looks no more.
    """

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._turn = threading.Lock()
        self._is_asked = threading.Event()
        self._asked_s = self._looked_s = -float("inf")
        self._view: LiveView | None = None
        threading.Thread(target=self._keep_looking, name="looks at GPUs", daemon=True).start()

    def describe(self) -> Iterator[Metric]:
        """Return all families, without samples."""
        return (each.filled() for each in FAMILIES)

    @override
    def collect(self) -> Iterator[Metric]:
        return families_of(self._latest_view())

    def _latest_view(self) -> LiveView:
        with self._turn:
            self._asked_s = time.monotonic()
            self._is_asked.set()
            if self._view is None or self._asked_s - self._looked_s > _FRESH_S:
                return self._look()
            return self._view

    def _look(self) -> LiveView:
        self._looked_s = time.monotonic()
        self._view = self._session.look()
        return self._view

    def _keep_looking(self) -> None:
        while self._is_asked.wait():
            time.sleep(max(0.0, self._looked_s + PERIOD_S - time.monotonic()))
            with self._turn:
                if time.monotonic() - self._asked_s > _LINGER_S:
                    self._is_asked.clear()
                elif time.monotonic() - self._looked_s >= PERIOD_S:
                    self._look()


def registry_of(session: LiveSession) -> CollectorRegistry:
    """Return what to serve: the GPUs, and what serving them costs this process."""
    registry = CollectorRegistry()
    registry.register(LiveCollector(session))
    ProcessCollector(registry=registry)
    return registry
