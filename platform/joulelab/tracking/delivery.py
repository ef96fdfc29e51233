"""Deliver what the store has and a tracker has not: at once, or beside a running study."""

import logging
import queue
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from joulelab.core.measurement import Measurement
from joulelab.errors import TrackingError
from joulelab.tracking.addresses import HIDDEN, discreet, typed
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
    def begin(self, header: StudyHeader) -> None:
        """Open the run of the study, or find it again if it was opened before."""

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

    def sync_words(self, folder: Path) -> str:
        """Return the command that delivers later what is left, which needs what is not stored."""
        hidden = " --tracking-uri URI, with its password" if HIDDEN in self.target else ""
        return f"joulelab sync {typed(folder)}{hidden}"


def deliver(store: ResultStore, tracker: Tracker) -> DeliveryReport:
    """Bring every undelivered measurement of ``store`` to ``tracker``.

    Raises TrackingError if the folder has no study header, another process is delivering it, or it
    cannot be read. A tracker that fails is reported, not raised.
    """
    header = store.read_study()
    if header is None:
        raise TrackingError(f"{store.folder} has no study.json, so nobody knows its study's name.")
    with _only_deliverer(store.folder):
        left = store.undelivered(target=tracker.target)
        total, error = len(left), None
        try:
            tracker.begin(header)
            while left:
                del left[: _deliver_some(store, tracker, left)]
            _deliver_answer(store, tracker)
        except TrackingError as failure:
            error = str(failure)
    return DeliveryReport(
        target=tracker.target, num_delivered=total - len(left), num_left=len(left), error=error
    )


class BackgroundDelivery:
    """Delivers a study's measurements from a thread of its own, so that the study never waits.

    They are in the store already, and are delivered as fast as the tracker takes them. One that
    fails is tried again with the next measurement, and at the end.
    """

    def __init__(self, store: ResultStore, tracker: Tracker, header: StudyHeader) -> None:
        self._store = store
        self._tracker = tracker
        self._header = header
        self._offered: queue.SimpleQueue[Measurement | ChartPoint | None] = queue.SimpleQueue()
        self._backlog: list[Measurement] = []
        self._points: list[ChartPoint] = []
        self._known: set[str] = set()
        self._num_delivered = 0
        self._begun = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="joulelab-delivery", daemon=True)
        self._thread.start()

    def offer(
        self, measurements: Sequence[Measurement], points: Sequence[ChartPoint] = ()
    ) -> str | None:
        """Have measurements delivered soon, each once, and points of the study's course.

        Returns:
            At once: why the last delivery failed, in one sentence; ``None`` while all is well.
        """
        for measurement in measurements:
            if measurement.measurement_id not in self._known:
                self._known.add(measurement.measurement_id)
                self._offered.put(measurement)
        for point in points:
            self._offered.put(point)
        return self._error

    def offer_backlog(self) -> None:
        """Take up what earlier runs of the study left undelivered."""
        self.offer(self._store.undelivered(target=self._tracker.target))

    def close(self, timeout_s: float = 60.0) -> DeliveryReport:
        """Deliver what is left and the study's answer, if the store has one, and stop.

        What is left after ``timeout_s`` can be delivered later.
        """
        self._offered.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._error = f"{self._tracker.target} took longer than {timeout_s:g} s."
        return DeliveryReport(
            target=self._tracker.target,
            num_delivered=self._num_delivered,
            num_left=len(self._known) - self._num_delivered,
            error=self._error,
        )

    def _run(self) -> None:
        try:
            with _only_deliverer(self._store.folder):
                while self._take():
                    self._try(self._deliver_backlog)
                if self._try(self._deliver_backlog):
                    self._try(lambda: _deliver_answer(self._store, self._tracker))
        except Exception as error:
            # The top frame of the thread: the report must say why nothing more was delivered.
            ending = discreet(traceback.format_exc())  # errors of MLflow quote its whole address
            _logger.error("Delivery to %s ended.\n%s", self._tracker.target, ending)  # noqa: TRY400
            self._error = discreet(f"{type(error).__name__}: {error}")

    def _take(self) -> bool:
        """Move what was offered to the backlog; ``False`` once nothing more will come."""
        item = self._offered.get()
        while item is not None:
            if isinstance(item, ChartPoint):
                self._points.append(item)
            else:
                self._backlog.append(item)
            if self._offered.empty():
                return True
            item = self._offered.get()
        return False

    def _deliver_backlog(self) -> None:
        if not self._begun:
            self._tracker.begin(self._header)
            self._begun = True
        while self._backlog:
            num = _deliver_some(self._store, self._tracker, self._backlog)
            del self._backlog[:num]
            self._num_delivered += num
        if self._points:
            self._tracker.chart(self._points)
            self._points = []

    def _try(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except TrackingError as error:
            if self._error is None:
                _logger.warning("%s The study goes on; 'joulelab sync' delivers later.", error)
            self._error = str(error)
            return False
        self._error = None
        return True


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
def _only_deliverer(folder: Path) -> Generator[None]:
    """Keep two processes from delivering one folder, where the file system has locks."""
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
