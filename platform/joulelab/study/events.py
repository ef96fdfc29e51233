"""What happens in a study, told to whoever shows its progress."""

from dataclasses import dataclass

from joulelab.core.record import Record
from joulelab.core.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStarted:
    """The pool is about to measure; ``num_trials`` is ``None`` if that turns out as it goes."""

    num_trials: int | None
    num_skipped: int
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReady:
    """A GPU is ready for trials, for the first time or again."""

    uuid: str
    hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A GPU has begun an attempt of a trial."""

    trial: Trial
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialMeasured:
    """A trial has run to its end; its records, one per phase, may be invalid all the same.

    ``writer`` is the file of the results store that has them already. ``between_s`` is the wall
    time on the GPU's actor since the measuring of the trial before; ``None`` where there was none,
    or the report was lost.
    """

    trial: Trial
    uuid: str
    records: tuple[Record, ...]
    writer: str
    between_s: float | None
    retried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """An attempt ended without any measurement; ``detail`` says in a sentence what happened.

    It ``died`` with the process that measured, or was ``refused``: the GPU cannot do what was
    asked.
    """

    trial: Trial
    uuid: str
    died: bool
    detail: str
    retried: bool
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceQuarantined:
    """A GPU takes no more trials in this run; says why, and what to do."""

    uuid: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingDown:
    """The tracking store does not take results; the results folder has them all."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyInterrupted:
    """A signal ended the measuring; the study concludes from what it has."""

    study: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """All is measured and concluded; the tracking store still lacks so many measurements."""

    num_left: int


PoolEvent = DeviceReady | TrialStarted | TrialMeasured | AttemptFailed | DeviceQuarantined
StudyEvent = StudyStarted | PoolEvent | StudyInterrupted | TrackingDown | Delivering
