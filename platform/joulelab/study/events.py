"""What happens in a study, told to whoever shows its progress."""

from dataclasses import dataclass

from joulelab.core.record import Record
from joulelab.core.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStarted:
    """The pool is about to measure.

    Attributes:
        num_trials: Trials of the study; ``None`` if that turns out as it goes.
        num_skipped: Those of them that an earlier run measured.
        uuids: GPUs that take part.
    """

    num_trials: int | None
    num_skipped: int
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReady:
    """A GPU is ready for trials, for the first time or again.

    Attributes:
        uuid: The GPU.
        hostname: Machine that holds it.
    """

    uuid: str
    hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A GPU has begun a trial.

    Attributes:
        trial: The trial, with its attempt.
        uuid: The GPU.
    """

    trial: Trial
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialMeasured:
    """A trial has run to its end; its records may be invalid all the same.

    Attributes:
        trial: The trial, with its attempt.
        uuid: The GPU.
        records: One per phase.
        writer: File of the results store that has them already.
        between_s: Wall time on the GPU's actor between the measuring of the trial before and
            that of this one; ``None`` where there was none before, or the report was lost.
        retried: Whether it will be tried again.
    """

    trial: Trial
    uuid: str
    records: tuple[Record, ...]
    writer: str
    between_s: float | None
    retried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """An attempt ended without any measurement.

    Attributes:
        trial: The trial, with its attempt.
        uuid: The GPU.
        died: Whether the process that measured died, rather than reporting an error.
        detail: What happened, one sentence.
        retried: Whether it will be tried again.
        refused: Whether the GPU cannot do what was asked, rather than that something broke.
    """

    trial: Trial
    uuid: str
    died: bool
    detail: str
    retried: bool
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceQuarantined:
    """A GPU takes no more trials in this run.

    Attributes:
        uuid: The GPU.
        detail: Why, and what to do.
    """

    uuid: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingDown:
    """The tracking store does not take results; the results folder has them all.

    Attributes:
        detail: Why, and what to do.
    """

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyInterrupted:
    """A signal ended the measuring; the study concludes from what it has.

    Attributes:
        study: Name of the study, under which it goes on.
    """

    study: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """All is measured and concluded; the tracking store is still being told.

    Attributes:
        num_left: Measurements that it has not got yet.
    """

    num_left: int


PoolEvent = DeviceReady | TrialStarted | TrialMeasured | AttemptFailed | DeviceQuarantined
StudyEvent = StudyStarted | PoolEvent | StudyInterrupted | TrackingDown | Delivering
