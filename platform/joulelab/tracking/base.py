"""What a study needs of a tracking store: the second copy, for looking and comparing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from joulelab.core.measurement import Measurement
from joulelab.tracking.study import ChartPoint, RunMetrics, StudyHeader


class Tracker(ABC):
    """Writes one run of a study to a tracking store.

    A call that fails raises :class:`TrackingError` within seconds and may be repeated: a
    measurement is known by its id, so it is never there twice.
    """

    @property
    @abstractmethod
    def target(self) -> str:
        """URI of the tracking store, without user and password."""

    @abstractmethod
    def begin(self, header: StudyHeader) -> None:
        """Open the run of the study, or find it again if it was opened before.

        Raises:
            TrackingError: If the store cannot be reached.
        """

    @abstractmethod
    def log(self, measurement: Measurement, trace: Path | None) -> None:
        """Write ``measurement`` unless it is there already.

        Args:
            measurement: The result, valid or not.
            trace: File with its power samples; ``None`` if there is none.

        Raises:
            TrackingError: If it could not be written whole.
        """

    def chart(self, points: Sequence[ChartPoint]) -> None:
        """Write the course of the study, points that are there already left out.

        A store without curves does nothing.

        Raises:
            TrackingError: If they could not be written whole.
        """

    def amend(self, runs: Sequence[RunMetrics]) -> None:
        """Write what is known now of measurements that were logged before.

        A store that has no place for that does nothing.

        Raises:
            TrackingError: If it could not be written whole.
        """

    @abstractmethod
    def finish(self, *, note: str, summary: Mapping[str, float], files: Sequence[Path]) -> None:
        """End the run of the study with its answer.

        Args:
            note: The answer in words, shown at the top of the run.
            summary: The answer in numbers, units in their names.
            files: Report, plots and tables to keep with the run.

        Raises:
            TrackingError: If it could not be written.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the store. Safe to call twice."""


def embedded_uri(folder: Path) -> str:
    """Return the URI of the MLflow store that lives in ``folder`` and needs no server."""
    return f"sqlite:///{(folder / 'mlflow.db').absolute()}"
