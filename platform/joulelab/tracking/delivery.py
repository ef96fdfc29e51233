"""Deliver what the store has and a tracker has not: at once, or beside a running study."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from joulelab.core.measurement import Measurement
from joulelab.errors import TrackingError
from joulelab.tracking.addresses import HIDDEN, typed
from joulelab.tracking.store import ResultStore
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
    def begin(self, header: StudyHeader) -> set[str]:
        """Open the run of the study, or find it again if it was opened before.

        Returns:
            Ids of the measurements that are in it.
        """

    @abstractmethod
    def log(self, measurement: Measurement, trace: Path | None) -> None:
        """Write ``measurement``, valid or not, unless it is there, with its power samples."""

    @property
    def most_at_once(self) -> int:
        """How many measurements :meth:`log_batch` is best given, once the run is open."""
        return 1

    def log_batch(self, results: Sequence[tuple[Measurement, Path | None]]) -> None:
        """Write measurements with their power samples, each unless it is there."""
        for measurement, trace in results:
            self.log(measurement, trace)

    def chart(self, points: Sequence[ChartPoint]) -> None:
        """Write the course of the study, points that are there left out; if it has curves."""

    def amend(self, runs: Sequence[RunMetrics]) -> None:
        """Write what is known now of logged measurements, if there is a place for that."""

    @abstractmethod
    def finish(self, *, note: str, summary: Mapping[str, float], files: Sequence[Path]) -> None:
        """End the run of the study with its answer in words, in numbers, and in files."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store. Safe to call twice."""


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """What became of a delivery: how many measurements it brought there, and why some are left.

    ``target`` is the store's URI, without user and password.
    """

    target: str
    num_delivered: int
    num_left: int
    error: str | None = None

    def trouble_words(self, folder: Path) -> str:
        """Say what of the study in ``folder`` is left and why, and the command that delivers it."""
        left = f"{self.num_left} of its measurements" if self.num_left else "its answer"
        sync = f"joulelab sync {typed(folder)}"
        if HIDDEN in self.target:
            sync += " --tracking-uri URI, with its password"
        return f"{left} left to deliver: {self.error} Once it takes them: {sync}"


class Delivery:
    """Brings what a study's store has to a tracker.

    What fails is tried again with what comes next, and at the end.
    """

    def __init__(self, store: ResultStore, tracker: Tracker, header: StudyHeader) -> None:
        self._store = store
        self._tracker = tracker
        self._header = header
        self._left: list[Measurement] = []
        self._points: list[ChartPoint] = []
        self._known: set[str] = set()
        self._begun = False

    def offer(
        self, measurements: Sequence[Measurement], points: Sequence[ChartPoint] = ()
    ) -> str | None:
        """Deliver measurements, each once, and points of the study's course.

        Returns why that failed, in one sentence; ``None`` while all is well.
        """
        self._queue(measurements)
        self._points += points
        return _tried(self._deliver)

    def offer_backlog(self) -> str | None:
        """Deliver likewise what the store has and nobody noted as delivered."""
        return self.offer(self._store.undelivered(target=self._tracker.target))

    def close(self) -> DeliveryReport:
        """Deliver what is left and the study's answer, if the store has one."""
        error = self.offer_backlog() or _tried(lambda: _deliver_answer(self._store, self._tracker))
        return DeliveryReport(
            target=self._tracker.target,
            num_delivered=len(self._known) - len(self._left),
            num_left=len(self._left),
            error=error,
        )

    def _queue(self, measurements: Sequence[Measurement]) -> None:
        new = {m.measurement_id: m for m in measurements if m.measurement_id not in self._known}
        self._known |= new.keys()
        self._left += new.values()

    def _deliver(self) -> None:
        if not self._begun:
            self._queue_lost(self._tracker.begin(self._header))
            self._begun = True
        while self._left:
            del self._left[: _deliver_some(self._store, self._tracker, self._left)]
        if self._points:
            self._tracker.chart(self._points)
            self._points = []

    def _queue_lost(self, there: set[str]) -> None:
        """Deliver anew what a store had, and lost as it was emptied or put back from a backup."""
        lost = self._store.delivered(target=self._tracker.target) - there
        if lost:
            self._queue([m for m in self._store.read() if m.measurement_id in lost])


def deliver(store: ResultStore, tracker: Tracker) -> DeliveryReport:
    """Bring every undelivered measurement of ``store`` to ``tracker``.

    Raises TrackingError if the folder has no study header, another process is delivering it, or it
    cannot be read. A tracker that fails is reported, not raised.
    """
    header = store.read_study()
    if header is None:
        raise TrackingError(f"{store.folder} has no study.json, so nobody knows its study's name.")
    with only_deliverer(store.folder):
        return Delivery(store, tracker, header).close()


def _tried(action: Callable[[], None]) -> str | None:
    try:
        action()
    except TrackingError as error:
        return str(error)
    return None


def _deliver_some(store: ResultStore, tracker: Tracker, left: Sequence[Measurement]) -> int:
    """Deliver the first of ``left``; return how many."""
    some = left[: tracker.most_at_once]
    traces = [store.trace_path(measurement.measurement_id) for measurement in some]
    tracker.log_batch([(m, t if t.exists() else None) for m, t in zip(some, traces, strict=True)])
    store.mark_delivered([m.measurement_id for m in some], target=tracker.target)
    return len(some)


def _deliver_answer(store: ResultStore, tracker: Tracker) -> None:
    answer = store.read_answer()
    if answer is not None:
        files = [store.folder / name for name in answer.files]
        tracker.chart(answer.chart)
        tracker.amend(answer.runs)
        tracker.finish(note=answer.note, summary=dict(answer.summary), files=files)


@contextmanager
def only_deliverer(folder: Path) -> Generator[None]:
    """Keep other processes from delivering a folder, where the file system has locks.

    Raises TrackingError if one does.
    """
    path = folder / "delivered" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise TrackingError(
                f"Another process is delivering {folder}: a study that still runs does so itself."
            ) from error
        except OSError as error:
            _logger.info("No lock on %s (%s): deliver it from one process only.", path, error)
        yield
