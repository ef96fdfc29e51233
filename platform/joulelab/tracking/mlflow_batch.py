"""Many finished runs in one transaction, where MLflow's client writes to a database itself.

For one run it commits some seven times. Here the rows of its tables are those that it makes, and
the runs of a batch are there at once, ended, or not at all. A server's API has no such call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from joulelab.core.measurement import Measurement
from joulelab.tracking.mlflow_database import turn
from joulelab.tracking.mlflow_store import values_of
from joulelab.tracking.vocabulary import metrics, params

MOST = 50
"""Runs in one transaction, which other writers of an embedded store wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that has ended, and all that MLflow gets of it; times are in Unix milliseconds."""

    run_id: str
    name: str
    start_ms: int
    stop_ms: int
    succeeded: bool
    tags: Mapping[str, str]
    params: Mapping[str, object]
    metrics: Mapping[str, float]

    @property
    def status(self) -> str:
        """What MLflow says of it."""
        return "FINISHED" if self.succeeded else "FAILED"


class Batches:
    """Writes batches of runs to an experiment through the store behind a client.

    ``path`` is the file of an embedded store, ``None`` of any other. Raises MlflowException if the
    experiment was deleted, or the database does not answer.
    """

    def __init__(self, store: Any, experiment_id: str, path: Path | None) -> None:
        self._store, self._experiment_id, self._path = store, experiment_id, path
        self._root: str = store.get_experiment(experiment_id).artifact_location

    def artifact_uri(self, run_id: str) -> str:
        """Return where the files of a run lie."""
        from mlflow.utils.uri import append_to_uri_path

        join: Any = append_to_uri_path
        uri: str = join(self._root, run_id, self._store.ARTIFACTS_FOLDER_NAME)
        return uri

    def insert(self, runs: Sequence[EndedRun]) -> None:
        """Write runs, all or none of them, in turn with others.

        Raises TrackingError if others do not let it have a turn; MlflowException if a name or a
        value is none that MLflow takes, or the database refuses. Where its answer is lost, they may
        be there.
        """
        from sqlalchemy import insert

        rows: dict[type, list[dict[str, Any]]] = {}
        for run in runs:
            for table, some in self._rows(run).items():
                rows.setdefault(table, []).extend(some)
        with turn(self._path), self._store.ManagedSessionMaker(read_only=False) as session:
            for table, some in rows.items():  # runs first: the others refer to them
                if some:
                    session.execute(insert(table), some)

    def _rows(self, run: EndedRun) -> dict[type, list[dict[str, Any]]]:
        from mlflow.entities import RunTag
        from mlflow.store.tracking.dbmodels import models
        from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
        from mlflow.utils.validation import _validate_batch_log_data

        named = {**run.tags, MLFLOW_RUN_NAME: run.name}
        given = [RunTag(key, value) for key, value in named.items()]
        listed, values = values_of(run.params, run.metrics, run.start_ms)
        check: Any = _validate_batch_log_data
        values, listed, given = check(values, listed, given)
        of_run = {"run_uuid": run.run_id}
        figures = [of_run | self._figure(metric) for metric in values]
        return {
            models.SqlRun: [self._run(run)],
            models.SqlTag: [of_run | {"key": each.key, "value": each.value} for each in given],
            models.SqlParam: [of_run | {"key": each.key, "value": each.value} for each in listed],
            models.SqlMetric: figures,
            models.SqlLatestMetric: figures,
        }

    def _run(self, run: EndedRun) -> dict[str, Any]:
        return {
            "run_uuid": run.run_id,
            "name": run.name,
            "experiment_id": int(self._experiment_id),
            "artifact_uri": self.artifact_uri(run.run_id),
            "status": run.status,
            "start_time": run.start_ms,
            "end_time": run.stop_ms,
            "lifecycle_stage": "active",
            "source_type": "UNKNOWN",
            "source_name": "",
            "source_version": "",
            "entry_point_name": "",
            "user_id": "unknown",
        }

    def _figure(self, metric: Any) -> dict[str, Any]:
        is_nan, value = self._store.sanitize_metric_value(metric.value)
        return {
            "key": metric.key,
            "value": value,
            "timestamp": metric.timestamp,
            "step": metric.step,
            "is_nan": is_nan,
        }


def ended_run(measurement: Measurement, tags: Mapping[str, str]) -> EndedRun:
    """Return what MLflow gets of a measurement, which is known by its ``tags``."""
    start_ms, windows = ms_of(measurement.provenance.started_at), measurement.windows
    length_s = windows[-1].start_s + windows[-1].duration_s - windows[0].start_s if windows else 0.0
    return EndedRun(
        run_id=uuid4().hex,
        name=f"{measurement.trial} {measurement.phase}",
        start_ms=start_ms,
        stop_ms=start_ms + round(1000 * length_s),
        succeeded=measurement.valid,
        tags=tags,
        params=params(measurement),
        metrics=metrics(measurement),
    )


def ms_of(time: str) -> int:
    """Return an ISO 8601 time as Unix milliseconds."""
    return round(1000 * datetime.fromisoformat(time).timestamp())


def batches_of(client: Any, experiment_id: str, path: Path | None) -> Batches | None:
    """Return what writes batches to an experiment; ``None`` where a server stands before it."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = client._tracking_client.store  # noqa: SLF001 - MLflow has no public way to it
    return Batches(store, experiment_id, path) if isinstance(store, SqlAlchemyStore) else None
