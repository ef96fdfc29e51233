"""The one writer to MLflow of a study, in a process of its own."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from joulelab.core.measurement import Measurement
from joulelab.tracking.discreet import discreet
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint, StudyHeader
from joulelab.tracking.sync import BackgroundDelivery, DeliveryReport

_NICENESS = 10
_CLOSE_BASE_S = 60.0
_CLOSE_PER_MEASUREMENT_S = 1.0


class TrackerActor:
    """Delivers measurements that are in the store already to MLflow, as fast as that takes them.

    The class is plain: :class:`TrackerLink` puts it on the cluster.

    Args:
        results_dir: Results folder of the study.
        uri: MLflow tracking URI.
        header: The study.
        niceness: By how much this process gives way to others.
    """

    def __init__(
        self, results_dir: str, uri: str, header: StudyHeader, *, niceness: int = 0
    ) -> None:
        os.nice(niceness)
        writer = f"tracker@{socket.gethostname()}-{os.getpid()}"
        self._store = ResultStore(Path(results_dir), writer)
        self._tracker = MlflowTracker(uri)
        self._delivery = BackgroundDelivery(self._store, self._tracker, header)

    def offer_backlog(self) -> int:
        """Take up what earlier runs of the study left undelivered; return how many those are."""
        left = self._store.undelivered(target=self._tracker.target)
        self.offer(left)
        return len(left)

    def offer(
        self, measurements: Sequence[Measurement], points: Sequence[ChartPoint] = ()
    ) -> str | None:
        """Take measurements to deliver; return at once, with what is wrong with MLflow if any."""
        for measurement in measurements:
            self._delivery.offer(measurement)
        for point in points:
            self._delivery.plot(point)
        return self._delivery.error

    def finish(self, timeout_s: float) -> DeliveryReport:
        """Deliver what is left, and the study's answer if it has one."""
        report = self._delivery.close(timeout_s=timeout_s)
        self._tracker.close()
        self._store.close()
        return report


class TrackerLink:
    """The driver's end: hands measurements over without ever waiting for MLflow.

    Args:
        store: Where the measurements are, durably, before they are sent.
        uri: MLflow tracking URI.
        header: The study.
        gives_way: Whether tracking gives way to measuring on this machine.
    """

    def __init__(
        self, store: ResultStore, uri: str, header: StudyHeader, *, gives_way: bool = True
    ) -> None:
        self.trouble: str | None = None
        self._store = store
        self._uri = uri
        self._actor: Any = _start_actor(
            str(store.folder), uri, header, niceness=_NICENESS if gives_way else 0
        )
        self._waiting: list[Measurement] = []
        self._points: list[ChartPoint] = []
        self._call: Any = self._actor.offer_backlog.remote()
        self._num_sent = 0
        self._gap = False

    def send(self, measurements: Sequence[Measurement]) -> None:
        """Have ``measurements`` delivered soon; :attr:`trouble` says if MLflow is down."""
        self._waiting += measurements
        self._num_sent += len(measurements)
        if ray.wait([self._call], timeout=0)[0]:
            self._take_answer()
            self._call = self._offer()

    def plot(self, point: ChartPoint) -> None:
        """Have a point of the study's course delivered with the next measurements."""
        self._points.append(point)

    def finish(self) -> DeliveryReport:
        """Deliver what is left and the study's answer, as long as MLflow takes them."""
        timeout_s = _CLOSE_BASE_S + _CLOSE_PER_MEASUREMENT_S * self._num_sent
        try:
            self._take_answer()
            last = self._offer()
            if self._gap:
                last = self._actor.offer_backlog.remote()
            ray.get(last, timeout=timeout_s)
            report: DeliveryReport = ray.get(
                self._actor.finish.remote(timeout_s), timeout=timeout_s + _CLOSE_BASE_S
            )
        except RayError as error:
            return self._undelivered(_failure(error))
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ray.kill(self._actor)

    def _offer(self) -> Any:
        waiting, points = self._waiting, self._points
        self._waiting, self._points = [], []
        return self._actor.offer.remote(waiting, points)

    def _take_answer(self) -> None:
        try:
            answer = ray.get(self._call, timeout=_CLOSE_BASE_S)
        except RayError as error:
            self._gap = True
            self.trouble = _failure(error)
        else:
            self.trouble = answer if isinstance(answer, str) else None

    def _undelivered(self, error: str) -> DeliveryReport:
        left = len(self._store.undelivered(target=self._uri))
        target = discreet(self._uri)
        return DeliveryReport(target=target, num_delivered=0, num_left=left, error=error)


def _failure(error: RayError) -> str:
    return discreet(f"The tracker's process failed: {error}".partition("\n")[0])


def _start_actor(results_dir: str, uri: str, header: StudyHeader, *, niceness: int) -> Any:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    remote: Any = ray.remote(TrackerActor)
    options = {"num_cpus": 0, "max_restarts": 3, "scheduling_strategy": here}
    return remote.options(**options).remote(results_dir, uri, header, niceness=niceness)
