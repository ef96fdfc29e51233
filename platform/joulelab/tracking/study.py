"""The files of a study beside its measurements: what it was asked, what it found, how far it is."""

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from joulelab.core.codec import from_json, to_json
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Provenance
from joulelab.errors import ConfigError, JouleLabError, TrackingError
from joulelab.tracking.addresses import discreet
from joulelab.tracking.durable import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyHeader:
    """One run of a study; its measurements share a results folder."""

    # Name of the study, the study of its measurements and its MLflow experiment, e.g. "dvfs/NVIDIA
    # H200/llama".
    name: str
    sweep_id: str  # unique to this run of the study; a resumed run keeps it
    command: tuple[str, ...]  # the command line, argument by argument
    # Settings as (name, value) pairs, see :func:`flat_settings`.
    settings: tuple[tuple[str, KnobValue], ...]
    provenance: Provenance  # where and from which code it ran
    # MLflow store that the study delivers to, without user and password; None if to none.
    tracking_uri: str | None = None
    # Of which kind it is, see :mod:`joulelab.study.kind`; None of one that does not tell.
    kind: str | None = None
    workloads: tuple[str, ...] = ()  # what was to run, by name; empty likewise

    def __post_init__(self) -> None:
        if not (self.name and self.sweep_id):
            raise ConfigError(
                f"A study needs a name and a sweep_id, got {self.name!r} and {self.sweep_id!r}."
            )

    @property
    def title(self) -> str:
        """What was run, by the script that ran it, and which run: ``"energy search 4f1c..."``."""
        script = PurePosixPath(self.command[0] if self.command else "")
        kind = script.stem.replace("_", " ") if script.suffix == ".py" else "study"
        return f"{kind} {self.sweep_id}"


def discreet_header(header: StudyHeader) -> StudyHeader:
    """Return ``header`` as it may be stored and shown: see :func:`~.discreet.discreet`."""
    uri = header.tracking_uri
    return replace(
        header,
        command=tuple(map(discreet, header.command)),
        settings=tuple(
            (name, discreet(value) if isinstance(value, str) else value)
            for name, value in header.settings
        ),
        tracking_uri=None if uri is None else discreet(uri),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """Where a study stood after one more step, from 1; tracking stores draw curves through them.

    The values of a ``revised`` one may change as the study goes on: others are written again.
    """

    step: int
    values: tuple[tuple[str, float], ...]
    revised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """Numbers of one measurement that only the whole study knows, as that against a baseline."""

    measurement_id: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a finished study found."""

    note: str  # the answer in words
    summary: tuple[tuple[str, float], ...] = ()  # the answer in numbers
    files: tuple[str, ...] = ()  # report, plots and tables, as paths within the results folder
    chart: tuple[ChartPoint, ...] = ()  # the course of the study; empty where it has none
    runs: tuple[RunMetrics, ...] = ()  # what is known of single measurements now

    def __post_init__(self) -> None:
        for file in self.files:
            if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                raise ConfigError(f"files must lie in the results folder, got {file!r}.")


def flat_settings(settings: Any) -> tuple[tuple[str, KnobValue], ...]:
    """List the fields of a settings dataclass as text; nested ones become ``"procedure.idle_s"``.

    Sequences are joined by spaces, and whatever else is no scalar is written as ``str`` does.
    """
    return tuple(_flatten(settings, ""))


def _flatten(value: Any, name: str) -> list[tuple[str, KnobValue]]:
    if is_dataclass(value) and not isinstance(value, type):
        prefix = f"{name}." if name else ""
        return [
            pair
            for field in fields(value)
            for pair in _flatten(getattr(value, field.name), prefix + field.name)
        ]
    if isinstance(value, Enum):
        return [(name, value.name)]
    if value is None or isinstance(value, (str, bool, int, float)):
        return [(name, value)]
    if isinstance(value, (list, tuple)):
        return [(name, " ".join(map(str, value)))]
    return [(name, str(value))]


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
    """How far a study is."""

    study: str
    num_trials: int | None  # trials that it has; None if that turns out as it goes
    num_done: int  # those that need no further try, those of earlier runs included
    since_unix_s: float  # when this run began to measure, in seconds since 1970
    updated_unix_s: float  # when this was written, likewise
    num_retries: int = 0  # attempts of this run that were followed by another
    running: tuple[RunningTrial, ...] = ()  # trials that are being measured
    # Trials of this run that were given up without any measurement.
    failed: tuple[Trouble, ...] = ()
    out_of_service: tuple[Trouble, ...] = ()  # GPUs that take no more trials in this run


def write_state(folder: Path, state: StudyState) -> None:
    """Replace the state in the results folder of a study.

    Raises TrackingError if it cannot be written.
    """
    write_whole(folder / STATE, to_json(state), durable=False)


def read_state(folder: Path) -> StudyState | None:
    """Read how far the study in a results folder is, or was when it ended; ``None`` without one.

    Raises TrackingError if the file is none, or cannot be read.
    """
    path = folder / STATE
    try:
        return from_json(StudyState, path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError, JouleLabError, OSError) as error:
        raise TrackingError(f"{path} does not tell how far a study is: {error}") from error
