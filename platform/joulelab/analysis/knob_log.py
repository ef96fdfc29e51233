"""A study of knobs as it was asked and scored, in one file, from which its answer follows again."""

from dataclasses import dataclass

from joulelab.analysis.knob_grid import KnobGrid
from joulelab.analysis.knob_study import Panel
from joulelab.analysis.knob_wording import CONCLUSIONS, Conclude
from joulelab.core.codec import from_json, to_json
from joulelab.core.quality import Quality
from joulelab.errors import TrackingError
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.evaluation import evaluate
from joulelab.tracking.durable import write_whole
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS

LOG = "knobs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobStudy:
    """How a grid of knobs is told.

    Raises:
        UnknownNameError: If :data:`~joulelab.analysis.knob_wording.CONCLUSIONS` has no ``about``.
    """

    grid: KnobGrid
    about: str
    panels: tuple[Panel, ...]

    def __post_init__(self) -> None:
        _ = self.conclude

    @property
    def conclude(self) -> Conclude:
        """Says what a phase shows."""
        return CONCLUSIONS[self.about]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobLog:
    """What a study of knobs was to measure, and what its outputs are worth if they were scored."""

    study: KnobStudy
    quality: tuple[tuple[Quality, ...], ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The columns of the plot: the last one shows quality where there is any."""
        panels = self.study.panels
        return (*panels[:-1], "quality") if any(self.quality) else panels


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


def scored(grid: KnobGrid) -> tuple[tuple[Quality, ...], ...]:
    """Score the outputs of every case against those of the first that the workload takes.

    Metrics are those that need no download. Scores are kept on disk; a case that cannot run here
    has none. Empty if such outputs cannot be scored.
    """
    if grid.workload not in SUBJECTS:
        return ()
    kind = SUBJECTS[grid.workload]
    metrics = [METRICS[name].from_knobs({}) for name in kind.metrics]
    made = [
        WORKLOADS[grid.workload].from_knobs(dict(configuration.knobs)).settings
        for configuration in grid.configurations
    ]
    rows = evaluate(grid.workload, made, metrics, kind.read_data(None))
    return tuple(
        tuple(
            row.quality
            for row in rows
            if row.configuration == case.configuration and row.quality is not None
        )
        for case in grid.cases
    )
