"""An MLflow store: reached soon or not at all, made once, and used without global state.

MLflow's own client waits 20 s for each statement on a locked database and minutes for a server
that is gone. A look beforehand keeps a study from waiting for either.
"""

import contextlib
import logging
import os
import re
import sqlite3
import time
import warnings
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from joulelab.errors import ConfigError, TrackingError, require
from joulelab.tracking.addresses import connectable, database_path, discreet
from joulelab.tracking.durable import check_folder
from joulelab.tracking.mlflow_database import (
    artifacts_of,
    check_database,
    check_reachable,
    is_database,
    make_tables,
    mlflow_uri,
    turn,
)
from joulelab.tracking.study_lock import check_database_folder
from joulelab.tracking.vocabulary import opening_tags

# MLflow reads these when it is imported and at every request. Its defaults wait for minutes, and
# send usage statistics from machines that may have no way out.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
DESCRIPTION = "mlflow.note.content"
"""Tag whose text MLflow shows as the description of a run or an experiment."""
_MAX_PARAMS_PER_CALL = 100


@contextmanager
def reached(uri: str, *, in_turn: bool = True) -> Generator[None]:
    """Reach the store, and turn whatever MLflow raises inside into a TrackingError, soon.

    Who does not write ``in_turn`` throughout takes a turn for each write to an embedded store.
    Raises TrackingError if the store does not answer, or refuses something.
    """
    import sqlalchemy.exc

    try:
        path = database_path(uri)
        if path is not None and not path.exists():
            _create_database(path)
        with turn(path):
            check_reachable(uri)
        from mlflow.exceptions import MlflowException
    except (OSError, ImportError) as error:
        raise TrackingError(discreet(f"MLflow store {uri}: {error}")) from error
    try:
        with turn(path if in_turn else None):
            yield
    except (MlflowException, sqlalchemy.exc.SQLAlchemyError, OSError) as error:
        first = str(error).partition("\n")[0]
        raise TrackingError(discreet(f"MLflow store {uri}: {first}")) from error


def open_client(uri: str) -> Any:
    """Return MLflow's client of the store, tracking and registry alike."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):  # what they log as an error they raise too
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _commit_to_sqlite_cheaply()
    if is_database(uri):
        make_tables(uri)
    return MlflowClient(mlflow_uri(uri), mlflow_uri(uri))


def store_artifact(uri: str, artifact_uri: str, path: Path, folder: str | None = None) -> None:
    """Put a file among a run's artifacts, without asking the store where those are.

    MLflow's client reads the whole run for that, which takes longer than the file. The run itself
    says its ``artifact_uri``, whose root is the default ``folder``.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository: Any = get_artifact_repository(artifact_uri, tracking_uri=mlflow_uri(uri))
    repository.log_artifact(str(path), folder)


def log_values(
    client: Any,
    run_id: str,
    params: Mapping[str, object],
    metrics: Mapping[str, float],
    at_ms: int,
) -> None:
    """Log a run's params and its metrics at one time."""
    listed, values = values_of(params, metrics, at_ms)
    client.log_batch(run_id, metrics=values, params=listed[:_MAX_PARAMS_PER_CALL])
    for start in range(_MAX_PARAMS_PER_CALL, len(listed), _MAX_PARAMS_PER_CALL):
        client.log_batch(run_id, params=listed[start : start + _MAX_PARAMS_PER_CALL])


def values_of(
    params: Mapping[str, object], metrics: Mapping[str, float], at_ms: int
) -> tuple[list[Any], list[Any]]:
    """Return params and metrics as MLflow has them; a param ``None`` is the default's."""
    from mlflow.entities import Metric, Param

    return (
        [Param(name, "default" if v is None else str(v)) for name, v in params.items()],
        [Metric(name, value, at_ms, 0) for name, value in metrics.items()],
    )


def experiment_id(client: Any, uri: str, name: str, description: str) -> str:
    """Return the id of the experiment ``name``, made if absent, described unless it already is.

    Raises TrackingError if it was deleted.
    """
    from mlflow.exceptions import MlflowException

    known = client.get_experiment_by_name(name)
    tags = {DESCRIPTION: description, **opening_tags()}
    if known is None:
        try:
            made: str = client.create_experiment(name, _artifact_location(uri, name), tags)
        except MlflowException:  # another study may have made it meanwhile
            if (known := client.get_experiment_by_name(name)) is None:
                raise
        else:
            return made
    if known.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow experiment {name!r} was deleted; restore it, or name the study otherwise."
        )
    found: str = known.experiment_id
    for tag in tags.keys() - known.tags.keys():
        client.set_experiment_tag(found, tag, tags[tag])
    return found


@cache
def _commit_to_sqlite_cheaply() -> None:
    """Let this process sync an embedded store to disk three times a commit instead of four.

    MLflow commits some seven times for each run. A power failure at the wrong moment may cost the
    store, as SQLite says of this setting on old file systems; the results folder has all of it.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def on_connect(connection: object, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute("PRAGMA synchronous = NORMAL")


def _create_database(path: Path) -> None:
    """Make the tables in memory and put them at ``path`` at once.

    Two processes that open a fresh SQLite store at the same time crash in its migrations; and
    those sync to disk a thousand times, which a shared file system takes seconds for. A process
    that is killed meanwhile leaves nothing.
    """
    name = f"file:{uuid4().hex}?mode=memory&cache=shared"
    with closing(sqlite3.connect(name, uri=True)) as draft, warnings.catch_warnings():
        # SQLAlchemy will keep connections to such a store otherwise, which is as good.
        warnings.filterwarnings("ignore", "Selection of the SingletonThreadPool")
        open_client(f"sqlite:///{name}&uri=true").search_experiments(max_results=1)
        publish(draft, path)


def _artifact_location(uri: str, name: str) -> str | None:
    """Return an absolute place beside an embedded store; a server knows its own."""
    path, known = database_path(uri), artifacts_of(uri)
    root = known if path is None else (path.parent / "mlflow-artifacts").as_uri()
    folder = re.sub(r"[^\w.-]+", "-", name)
    return None if root is None else f"{root.rstrip('/')}/{folder}"


_ABANDONED_S = 600.0
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks", "file")


def usable_uri(uri: str) -> str:
    """Return the tracking URI to connect to for one that was given or stored.

    Nothing is asked over the network: a server that is down now may be up when results are there.
    Raises ConfigError if it can be none, lacks its password, or its folder cannot be written to; or
    if MLflow is not installed; TrackingError if a SQLite path is not absolute.
    """
    uri = connectable(uri)
    try:
        parts = urlsplit(uri)
        named = parts.port is None or parts.port > 0
    except ValueError:
        parts, named = urlsplit(""), False
    scheme = parts.scheme.partition("+")[0]
    if (
        not named
        or scheme not in _SCHEMES
        or (scheme in ("http", "https") and not parts.hostname)
        or re.search(r"[\x00-\x1f\x7f]" if scheme == "sqlite" else r"[\x00-\x20\x7f]", uri)
    ):
        raise ConfigError(
            "An MLflow tracking URI must be the address of a server (http://host:5000) or "
            f"sqlite:////absolute/path.db, got {discreet(uri)!r}."
        )
    path = database_path(uri)
    if path is not None and path.is_dir():
        raise ConfigError(f"{discreet(uri)!r} must name a file, but it is a folder.")
    if path is not None:
        check_folder(path.parent)
        check_database_folder(path)
    require("mlflow", "sqlalchemy")
    if is_database(uri):
        check_database(uri)
    return uri


def publish(draft: sqlite3.Connection, path: Path) -> None:
    """Put the database ``draft`` at ``path`` at once, unless another process was first.

    What a process left that was killed while it did so is cleared away. Raises OSError if the file
    system refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()
    near = path.with_name(f".{path.name}.{uuid4().hex}.tmp")  # linked whole or not at all
    try:
        with contextlib.closing(sqlite3.connect(near)) as file:
            draft.backup(file)
        with contextlib.suppress(FileExistsError):
            os.link(near, path)
    finally:
        near.unlink(missing_ok=True)
