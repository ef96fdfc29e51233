"""How far a study is: a file beside its measurements that its driver replaces as it goes.

It is for those who watch. Results are the measurements; a study that goes on does not read it.
"""

from dataclasses import dataclass
from pathlib import Path

from joulelab.core.codec import from_json, to_json
from joulelab.errors import JouleLabError, TrackingError
from joulelab.tracking.durable import write_whole

STATE = "progress.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrial:
    """A trial that a GPU measures, since a time in seconds since 1970."""

    uuid: str
    trial: str
    since_unix_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A trial that was given up, or a GPU that was put out of service, and why."""

    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyState:
    """How far a study is.

    Attributes:
        study: Its name.
        num_trials: Trials that it has; ``None`` if that turns out as it goes.
        num_done: Those that need no further try, those of earlier runs included.
        num_retries: Attempts of this run that were followed by another.
        since_unix_s: When this run began to measure, in seconds since 1970.
        updated_unix_s: When this was written, likewise.
        running: Trials that are being measured.
        failed: Trials of this run that were given up without any measurement.
        out_of_service: GPUs that take no more trials in this run.
    """

    study: str
    num_trials: int | None
    num_done: int
    since_unix_s: float
    updated_unix_s: float
    num_retries: int = 0
    running: tuple[RunningTrial, ...] = ()
    failed: tuple[Trouble, ...] = ()
    out_of_service: tuple[Trouble, ...] = ()


def write_state(folder: Path, state: StudyState) -> None:
    """Replace the state in the results folder of a study.

    Raises:
        TrackingError: If it cannot be written.
    """
    write_whole(folder / STATE, to_json(state), durable=False)


def read_state(folder: Path) -> StudyState | None:
    """Read how far the study in a results folder is, or was when it ended; ``None`` without one.

    Raises:
        TrackingError: If the file is none, or cannot be read.
    """
    path = folder / STATE
    try:
        return from_json(StudyState, path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError, JouleLabError, OSError) as error:
        raise TrackingError(f"{path} does not tell how far a study is: {error}") from error
