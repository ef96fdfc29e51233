"""A study of knobs as it was asked and scored, in one file, from which its answer follows again."""

from dataclasses import dataclass

from joulelab.analysis.knob_grid import KnobGrid
from joulelab.analysis.knob_study import Panel
from joulelab.analysis.knob_wording import SAYINGS, Say
from joulelab.core.quality import Quality
from joulelab.errors import TrackingError
from joulelab.tracking.codec import from_json, to_json
from joulelab.tracking.durable import write_whole
from joulelab.tracking.store import ResultStore

LOG = "knobs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobStudy:
    """How a grid of knobs is told.

    Attributes:
        grid: What is measured.
        about: What it is about, see :data:`~joulelab.analysis.knob_wording.SAYINGS`.
        panels: Columns of the plot.

    Raises:
        UnknownNameError: If nothing is said of ``about``.
    """

    grid: KnobGrid
    about: str
    panels: tuple[Panel, ...]

    def __post_init__(self) -> None:
        _ = self.say

    @property
    def say(self) -> Say:
        """Says what a phase shows."""
        return SAYINGS[self.about]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobLog:
    """What a study of knobs was to measure, and what its outputs are worth.

    Attributes:
        study: What it was to measure, and how to tell it.
        quality: What the outputs of each case are worth; empty if not scored.
    """

    study: KnobStudy
    quality: tuple[tuple[Quality, ...], ...]


def write_knob_log(store: ResultStore, log: KnobLog) -> None:
    """Write ``log`` into a study's results folder, over an earlier one."""
    write_whole(store.folder / LOG, f"{to_json(log)}\n".encode())


def read_knob_log(store: ResultStore) -> KnobLog:
    """Read the log of a study of knobs from its results folder.

    Raises:
        FileNotFoundError: If there is none.
        TrackingError: If it is none.
    """
    path = store.folder / LOG
    try:
        return from_json(KnobLog, path.read_bytes())
    except (ValueError, TrackingError) as error:
        raise TrackingError(f"{path} is no log of a study of knobs: {error}") from error
