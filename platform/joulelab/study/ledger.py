"""The books of a study: what is stored, what the tracker has, what it adds up to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from joulelab.analysis.quantities import counted, quantity
from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Finding, InvalidReason
from joulelab.core.record import Record, Session, Verdict, record_of
from joulelab.core.trial import Trial
from joulelab.errors import INTERRUPTED
from joulelab.provenance import collect_provenance
from joulelab.study.events import (
    AttemptFailed,
    Delivering,
    DeviceQuarantined,
    PoolEvent,
    StudyEvent,
    TrackingDown,
    TrialMeasured,
)
from joulelab.study.gpu import StudyGpu
from joulelab.tracking.delivery import DeliveryReport
from joulelab.tracking.store import ResultStore
from joulelab.tracking.tracker_process import TrackerLink
from joulelab.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """What became of a study.

    ``num_valid``, ``num_invalid`` and ``num_retries`` are of this run, as is ``wall_s``. ``failed``
    says why by trial, ``quarantined`` by UUID; for ``unfinished`` trials no GPU was left.
    ``between_s`` is the median wall time between two measurings on a GPU; ``None`` for too few.
    """

    study: str
    num_trials: int
    num_skipped: int
    num_valid: int
    num_invalid: int
    num_retries: int
    failed: Mapping[str, str]
    unfinished: tuple[str, ...]
    quarantined: Mapping[str, str]
    interrupted: bool
    between_s: float | None
    delivery: DeliveryReport | None
    wall_s: float

    @property
    def complete(self) -> bool:
        """Whether every trial has a valid measurement."""
        return self.num_skipped + self.num_valid == self.num_trials

    @property
    def exit_code(self) -> int:
        """What the study's command returns: 0, 1 if trials went unmeasured, 130 if interrupted."""
        if self.interrupted:
            return INTERRUPTED
        return 1 if self.failed or self.unfinished else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSummary:
    """What became of a search; ``energy_j`` includes trials of earlier runs."""

    study: StudySummary
    stopped_by: str
    energy_j: float

    @property
    def words(self) -> str:
        """What was done and why it ended, in one sentence."""
        done = self.study.num_skipped + self.study.num_valid + self.study.num_invalid
        spent = quantity(self.energy_j, "J", digits=3)
        return f"{counted(done, 'trial')}, {spent}; ended by {self.stopped_by}."


class Ledger:
    """Stores and counts what the pool's events bring, and then passes them on to ``on_event``."""

    def __init__(
        self,
        store: ResultStore,
        gpus: Sequence[StudyGpu],
        tracker: TrackerLink | None,
        on_event: Callable[[StudyEvent], None],
    ) -> None:
        self._store = store
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._tracker = tracker
        self._on_event = on_event
        self._trouble: str | None = None
        self._num = {"valid": 0, "invalid": 0, "retries": 0}
        self._failed: dict[str, str] = {}
        self._between_s: list[float] = []
        self._delivery: DeliveryReport | None = None
        self.quarantined: dict[str, str] = {}

    def note(self, event: PoolEvent) -> None:
        """Take an event into the books."""
        match event:
            case TrialMeasured():
                self._note_measured(event)
            case AttemptFailed():
                self._note_failed(event)
            case DeviceQuarantined():
                self.quarantined[event.uuid] = event.detail
            case _:
                pass
        self._on_event(event)
        self._tell_trouble()

    @property
    def num_settled(self) -> int:
        """Trials of this run that need no further try."""
        return self._num["valid"] + self._num["invalid"] + len(self._failed)

    def note_left(self, num_left: int) -> None:
        """Tell how many measurements the tracking store has not got yet."""
        self._on_event(Delivering(num_left=num_left))

    def note_delivery(self, report: DeliveryReport) -> None:
        """Take into the books what the tracking store got in the end."""
        self._delivery = report
        if report.error is not None:
            self._on_event(TrackingDown(detail=report.trouble_words(self._store.folder)))

    def summary(
        self,
        *,
        study: str,
        num_trials: int,
        num_skipped: int,
        unfinished: Sequence[Trial],
        interrupted: bool,
        wall_s: float,
    ) -> StudySummary:
        """Close the books."""
        return StudySummary(
            study=study,
            num_trials=num_trials,
            num_skipped=num_skipped,
            num_valid=self._num["valid"],
            num_invalid=self._num["invalid"],
            num_retries=self._num["retries"],
            failed=dict(self._failed),
            unfinished=tuple(trial.name for trial in unfinished),
            quarantined=dict(self.quarantined),
            interrupted=interrupted,
            between_s=median(self._between_s) if self._between_s else None,
            delivery=self._delivery,
            wall_s=wall_s,
        )

    def _note_measured(self, event: TrialMeasured) -> None:
        seen_here = (self._store.folder / "measurements" / f"{event.writer}.jsonl").exists()
        self._keep(event.records, stored=seen_here)
        if event.between_s is not None:
            self._between_s.append(event.between_s)
        if event.retried:
            self._num["retries"] += 1
        else:
            valid = all(record.measurement.valid for record in event.records)
            self._num["valid" if valid else "invalid"] += 1

    def _note_failed(self, event: AttemptFailed) -> None:
        if event.died or event.refused:
            gpu = self._gpus[event.uuid]
            reason: InvalidReason = "actor_died" if event.died else "unsupported"
            finding = Finding(reason=reason, detail=event.detail)
            records = unmeasured_records(event.trial, gpu.identity, gpu.hostname, finding)
            self._keep(records, stored=False)
        if event.retried:
            self._num["retries"] += 1
        else:
            self._failed[event.trial.name] = event.detail

    def _keep(self, records: Sequence[Record], *, stored: bool) -> None:
        """Store records here unless they are, then offer them to the tracker."""
        if not stored:
            self._store.append(*records)
        if self._tracker is not None:
            self._tracker.send([record.measurement for record in records])

    def _tell_trouble(self) -> None:
        trouble = None if self._tracker is None else self._tracker.trouble
        if trouble is not None and self._trouble is None:
            self._on_event(TrackingDown(detail=f"{trouble} The results folder has everything."))
        self._trouble = trouble


def unmeasured_records(
    trial: Trial, device: DeviceIdentity, hostname: str, finding: Finding
) -> tuple[Record, ...]:
    """Return one invalid record per phase of ``trial``, of which nothing was measured."""
    workload = WORKLOADS.of(trial.configuration)
    session = Session(
        trial=trial,
        unit=workload.unit,
        device=device,
        provenance=replace(collect_provenance(), hostname=hostname),
    )
    nothing = Verdict(findings=(finding,))
    return tuple(record_of(session, phase, nothing) for phase in workload.phases)
