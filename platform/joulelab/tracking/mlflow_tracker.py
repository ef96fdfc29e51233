"""Results in MLflow, through its client and without its global state.

One experiment per study name, in it one parent run per run of the study, and under that one nested
run per measurement. The embedded store is one SQLite file at an absolute path; its artifacts lie
beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from joulelab.core.measurement import Measurement
from joulelab.errors import TrackingError
from joulelab.tracking.addresses import database_path, discreet
from joulelab.tracking.delivery import Tracker
from joulelab.tracking.mlflow_batch import MOST, Batches, EndedRun, batches_of, ended_run, ms_of
from joulelab.tracking.mlflow_store import (
    DESCRIPTION,
    experiment_id,
    log_values,
    open_client,
    reached,
    store_artifact,
)
from joulelab.tracking.study import ChartPoint, RunMetrics, StudyHeader
from joulelab.tracking.vocabulary import tags

_MEASUREMENT_ID = "joulelab.measurement_id"
_SWEEP_ID = "joulelab.sweep_id"
_PARENT = "mlflow.parentRunId"
_TRACES = "power_trace"
_MAX_METRICS_PER_CALL = 1000
_PLACES = ("store", "study", "results_dir", "tracking_uri", "guard_socket")
"""Settings that say where a study is kept: tags, since runs are compared by their params."""


class _Started(NamedTuple):
    """A run that MLflow knows of, and where its files go."""

    run_id: str
    artifact_uri: str


class MlflowTracker(Tracker):
    """Writes one sweep to an MLflow store.

    It is ``sqlite:////absolute/path.db`` for an embedded store, made if absent, or the address of a
    server. Raises TrackingError if a SQLite path is not absolute.
    """

    def __init__(self, uri: str) -> None:
        database_path(uri)
        self._uri = uri
        self._client: Any = None
        self._batches: Batches | None = None
        self._is_in_doubt = False  # whether a batch is there whose commit was not confirmed
        self._experiment_id = ""
        self._parent = _Started("", "")
        self._done: dict[str, str | None] = {}  # None: it was deleted, and is left alone
        self._known: dict[str, dict[str, float]] = {}
        self._charted: dict[str, dict[int, float]] = {}
        self._half_done: dict[str, _Started] = {}

    @property
    @override
    def target(self) -> str:
        return discreet(self._uri)

    @override
    def begin(self, header: StudyHeader) -> set[str]:
        path = database_path(self._uri)
        with reached(self._uri):
            self._client = open_client(self._uri)
            self._experiment_id = experiment_id(
                self._client, self._uri, header.name, _about(header)
            )
            known = list(self._runs(f"tags.`{_SWEEP_ID}` = '{header.sweep_id}'"))
            self._batches = batches_of(self._client, self._experiment_id, path)
            self._parent = _found(known[0]) if known else self._new_parent(header)
            if known:
                self._remember_children()
        return set(self._done)

    @override
    def log(self, measurement: Measurement, trace: Path | None) -> None:
        if measurement.measurement_id in self._done:
            return
        ended = ended_run(measurement, self._about_child(measurement))
        with reached(self._uri):
            run = self._half_done.get(measurement.measurement_id) or self._new_child(ended)
            self._half_done[measurement.measurement_id] = run
            if trace is not None and trace.exists():
                store_artifact(self._uri, run.artifact_uri, trace, _TRACES)
            log_values(self._client, run.run_id, ended.params, ended.metrics, ended.start_ms)
            self._client.set_terminated(run.run_id, ended.status, end_time=ended.stop_ms)
        self._done[measurement.measurement_id] = run.run_id
        del self._half_done[measurement.measurement_id]

    @property
    @override
    def most_at_once(self) -> int:
        return 1 if self._batches is None else MOST

    @override
    def log_batch(self, results: Sequence[tuple[Measurement, Path | None]]) -> None:
        if self._batches is not None:
            with reached(self._uri, in_turn=False):
                self._insert(self._batches, results)
        super().log_batch(results)  # what is left, such as runs that were only begun

    @override
    def chart(self, points: Sequence[ChartPoint]) -> None:
        from mlflow.entities import Metric

        with reached(self._uri):
            run_id, now_ms = self._parent.run_id, _now_ms()
            new = [
                Metric(name, value, now_ms, point.step)
                for point in points
                for name, value in point.values
                if self._is_news(name, value, point)
            ]
            for start in range(0, len(new), _MAX_METRICS_PER_CALL):
                some = new[start : start + _MAX_METRICS_PER_CALL]
                self._client.log_batch(run_id, metrics=some)
                for metric in some:
                    self._charted[metric.key][metric.step] = metric.value

    @override
    def amend(self, runs: Sequence[RunMetrics]) -> None:
        with reached(self._uri):
            for run in runs:
                run_id = self._done.get(run.measurement_id)
                known = self._known.setdefault(run.measurement_id, {})
                new = {name: v for name, v in run.values if known.get(name) != v}
                if run_id is not None and new:
                    log_values(self._client, run_id, {}, new, _now_ms())
                    known.update(new)

    @override
    def finish(self, *, note: str, summary: Mapping[str, float], files: Sequence[Path]) -> None:
        with reached(self._uri):
            for path in files:
                store_artifact(self._uri, self._parent.artifact_uri, path)
            self._client.set_tag(self._parent.run_id, DESCRIPTION, note)
            log_values(self._client, self._parent.run_id, {}, summary, _now_ms())
            self._client.set_terminated(self._parent.run_id, "FINISHED")

    @override
    def close(self) -> None:
        self._client = None

    def _new_parent(self, header: StudyHeader) -> _Started:
        given = {name: v for name, v in header.settings if v is not None and v != ""}
        places = {name for name in given if name.rpartition(".")[2] in _PLACES}
        about = {
            **{name: str(given[name]) for name in places},
            _SWEEP_ID: header.sweep_id,
            "command": " ".join(header.command),
            "provenance.hostname": header.provenance.hostname,
            "provenance.joulelab_version": header.provenance.joulelab_version,
            "provenance.git_sha": header.provenance.git_sha or "",
        }
        start_ms = ms_of(header.provenance.started_at)
        run = self._client.create_run(self._experiment_id, start_ms, about, header.title)
        asked = {name: value for name, value in given.items() if name not in places}
        log_values(self._client, run.info.run_id, asked, {}, start_ms)
        return _started(run)

    def _insert(self, batches: Batches, results: Sequence[tuple[Measurement, Path | None]]) -> None:
        if self._is_in_doubt:
            self._remember_children()
        self._is_in_doubt = True
        known = self._done.keys() | self._half_done
        new = {m.measurement_id: (m, t) for m, t in results if m.measurement_id not in known}
        runs = {name: ended_run(m, self._about_child(m)) for name, (m, _) in new.items()}
        for name, (_, trace) in new.items():
            if trace is not None:
                place = batches.artifact_uri(runs[name].run_id)
                store_artifact(self._uri, place, trace, _TRACES)
        batches.insert(list(runs.values()))
        self._done |= {name: run.run_id for name, run in runs.items()}
        self._is_in_doubt = False

    def _about_child(self, measurement: Measurement) -> dict[str, str]:
        return {_PARENT: self._parent.run_id, **tags(measurement)}

    def _new_child(self, run: EndedRun) -> _Started:
        return _started(
            self._client.create_run(self._experiment_id, run.start_ms, run.tags, run.name)
        )

    def _remember_children(self) -> None:
        for run in self._runs(f"tags.`{_PARENT}` = '{self._parent.run_id}'"):
            measurement_id = run.data.tags.get(_MEASUREMENT_ID, "")
            if run.info.lifecycle_stage != "active":
                self._done[measurement_id] = None
            elif run.info.status in {"FINISHED", "FAILED"}:
                self._done[measurement_id] = run.info.run_id
                self._known[measurement_id] = dict(run.data.metrics)
            else:
                self._half_done[measurement_id] = _started(run)

    def _is_news(self, name: str, value: float, point: ChartPoint) -> bool:
        known = self._points_of(name)
        return point.step not in known or (point.revised and known[point.step] != value)

    def _points_of(self, name: str) -> dict[int, float]:
        """Return the last values of the parent's metric by step, earlier lives included."""
        if name not in self._charted:
            history = self._client.get_metric_history(self._parent.run_id, name)
            self._charted[name] = {
                metric.step: metric.value for metric in sorted(history, key=lambda m: m.timestamp)
            }
        return self._charted[name]

    def _runs(self, which: str) -> Iterator[Any]:
        """Find runs, those that were deleted among them."""
        from mlflow.entities import ViewType

        page: str | None = None
        while True:
            found = self._client.search_runs(
                [self._experiment_id], which, ViewType.ALL, max_results=5000, page_token=page
            )
            yield from found
            page = found.token
            if not page:
                return


def _about(header: StudyHeader) -> str:
    command = " ".join(header.command) or "unknown"
    return (
        f"`{command}` began it.\n\nEach run without a parent is one sweep or search of joulelab, "
        "with its answer as description, its report and plots as artifacts and its curves as "
        "metrics; below it, each measurement is a run."
    )


def _found(run: Any) -> _Started:
    """Return the study's run. Raises TrackingError if it was deleted."""
    if run.info.lifecycle_stage != "active":
        raise TrackingError(
            f"The study's run in MLflow, {run.info.run_name!r}, was deleted; restore it "
            f"(`mlflow runs restore --run-id {run.info.run_id}`)."
        )
    return _started(run)


def _started(run: Any) -> _Started:
    return _Started(run.info.run_id, run.info.artifact_uri)


def _now_ms() -> int:
    return round(1000 * datetime.now().astimezone().timestamp())


_ABOUT = "What joulelab measured around programs and servers as they ran."


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """One result that belongs to no study, of a run that has ended, with its one artifact.

    Its experiment is made if absent; ``started_at`` is in ISO 8601.
    """

    experiment: str
    name: str
    started_at: str
    duration_s: float
    params: Mapping[str, object]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    file: Path
    succeeded: bool


def log_run(uri: str, ended: FinishedRun) -> None:
    """Log a run to the store at ``uri``.

    Raises TrackingError if the store does not answer, or refuses something.
    """
    start_ms = ms_of(ended.started_at)
    stop_ms = start_ms + round(1000 * ended.duration_s)
    with reached(uri):
        client = open_client(uri)
        home = experiment_id(client, uri, ended.experiment, _ABOUT)
        run = client.create_run(home, start_ms, dict(ended.tags), ended.name).info
        params = {name: str(value) for name, value in ended.params.items()}
        log_values(client, run.run_id, params, ended.metrics, stop_ms)
        store_artifact(uri, run.artifact_uri, ended.file)
        status = "FINISHED" if ended.succeeded else "FAILED"
        client.set_terminated(run.run_id, status, end_time=stop_ms)
