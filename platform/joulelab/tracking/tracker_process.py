"""The one writer to a study's tracking store, in a process of its own, and the driver's end of it.

MLflow sets up the whole process that it is in, works in threads, and computes; in the process of a
program that is measured it would be measured with it.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from joulelab.core.measurement import Measurement
from joulelab.errors import TrackingError
from joulelab.guard.processes import daemon_environment
from joulelab.tracking.addresses import discreet
from joulelab.tracking.delivery import Delivery, DeliveryReport, only_deliverer
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint, StudyHeader

_MOST_STARTS = 4


class TrackerProcess:
    """The process of a :class:`Delivery`, seen from the one that drives the study.

    It is on this machine, gives way to others by ``niceness``, and is started again if it dies;
    what drives the study can be interrupted without it.
    """

    def __init__(self, results_dir: str, uri: str, header: StudyHeader, niceness: int) -> None:
        self._writes_to = (results_dir, uri, header, niceness)
        self._num_starts = 0
        self._caller = ThreadPoolExecutor(1, "joulelab-tracker")
        self._start()

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """Have a method of the delivery called, one after the other; return at once.

        The future raises :class:`TrackingError` if the process failed.
        """
        return self._caller.submit(self._ask, method, arguments)

    def end(self) -> None:
        """End the process. Safe to call twice."""
        self._num_starts = _MOST_STARTS
        self._process.kill()
        self._process.wait()
        self._caller.shutdown(cancel_futures=True)
        self._let_go()

    def _start(self) -> None:
        self._num_starts += 1
        self._connection, its_end = Pipe()
        self._output = TemporaryFile()  # noqa: SIM115 - closed by _let_go()
        with its_end:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(its_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[its_end.fileno()],
                start_new_session=True,
                env=daemon_environment(),
            )
        self._connection.send(self._writes_to)  # no command line shows it

    def _ask(self, method: str, arguments: tuple[object, ...]) -> Any:
        try:
            self._connection.send((method, arguments))
            return self._connection.recv()
        except (EOFError, OSError) as error:
            code = self._process.wait()
            self._output.seek(0)
            last = self._output.read().decode(errors="replace").strip().rpartition("\n")[2]
            if self._num_starts < _MOST_STARTS:
                self._let_go()
                with suppress(OSError):  # the next call says why
                    self._start()
            raise TrackingError(f"It ended with exit code {code}. {last}".strip()) from error

    def _let_go(self) -> None:
        self._connection.close()
        self._output.close()


def main(connection: Connection) -> None:
    """Do what comes through ``connection`` until its other end is closed."""
    results_dir, uri, header, niceness = connection.recv()
    os.nice(niceness)
    store = ResultStore(Path(results_dir), f"tracker@{socket.gethostname()}-{os.getpid()}")
    delivery = Delivery(store, MlflowTracker(uri), header)
    with only_deliverer(store.folder):
        while True:
            try:
                method, arguments = connection.recv()
            except EOFError:  # whoever drove the study is gone; `joulelab sync` delivers the rest
                return
            connection.send(getattr(delivery, method)(*arguments))


_CLOSE_BASE_S = 120.0
_CLOSE_PER_MEASUREMENT_S = 1.0
_LOOK_S = 1.0


class TrackerLink:
    """Hands measurements of a store over to that process, which ends with the link.

    It never waits for the tracking store. What is lost with a process that dies is in the store.
    """

    def __init__(self, store: ResultStore, uri: str, process: TrackerProcess) -> None:
        self.trouble: str | None = None
        self._store = store
        self._uri = uri
        self._process = process
        self._waiting: list[Measurement] = []
        self._points: list[ChartPoint] = []
        self._call: Future[str | None] = process.call("offer_backlog")
        self._num_sent = 0

    def send(self, measurements: Sequence[Measurement]) -> None:
        """Have ``measurements`` delivered soon; :attr:`trouble` says if MLflow is down."""
        self._waiting += measurements
        self._num_sent += len(measurements)
        if self._call.done():
            try:
                self.trouble = self._call.result()
            except TrackingError as error:
                self.trouble = _failure(error)
            self._call = self._offer()

    def plot(self, point: ChartPoint) -> None:
        """Have a point of the study's course delivered with the next measurements."""
        self._points.append(point)

    def finish(self, on_left: Callable[[int], None] = lambda num_left: None) -> DeliveryReport:
        """Deliver what is left and the study's answer, as long as MLflow takes them.

        ``on_left`` is called every now and then with how many measurements are left.
        """
        self._offer()
        call = self._process.call("close")
        timeout_s = _CLOSE_BASE_S + _CLOSE_PER_MEASUREMENT_S * self._num_sent
        self._follow(call, timeout_s, on_left)
        try:
            report: DeliveryReport = call.result(timeout=0)
        except (TrackingError, TimeoutError) as error:
            return self._undelivered(_failure(error))
        return report

    def close(self) -> None:
        """End the tracker's process. Safe to call twice."""
        self._process.end()

    def _follow(self, call: Future[Any], timeout_s: float, on_left: Callable[[int], None]) -> None:
        """Wait for the last call, and tell how many measurements are left meanwhile."""
        until_s, target = time.monotonic() + timeout_s, discreet(self._uri)
        left: set[str] | None = None
        while not wait([call], _LOOK_S).done and time.monotonic() < until_s:
            if left is None:
                left = {m.measurement_id for m in self._store.undelivered(target=target)}
            on_left(len(left - self._store.delivered(target=target)))

    def _offer(self) -> Future[str | None]:
        waiting, points = self._waiting, self._points
        self._waiting, self._points = [], []
        return self._process.call("offer", waiting, points)

    def _undelivered(self, error: str) -> DeliveryReport:
        left = len(self._store.undelivered(target=self._uri))
        target = discreet(self._uri)
        return DeliveryReport(target=target, num_delivered=0, num_left=left, error=error)


def _failure(error: Exception) -> str:
    first = str(error).partition("\n")[0] or "It did not answer in time."
    return discreet(f"The tracker's process failed: {first}")


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
