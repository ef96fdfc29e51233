"""An MLflow store: made once, reached soon or not at all, and used without global state."""

import logging
import os
import re
import sqlite3
import warnings
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from joulelab.errors import TrackingError
from joulelab.tracking.discreet import discreet
from joulelab.tracking.reach import check_reachable, database_path, publish

# MLflow reads these when it is imported and at every request. Its defaults wait for minutes, and
# send usage statistics from machines that may have no way out.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}


@contextmanager
def reached(uri: str) -> Generator[None]:
    """Reach the store, and turn whatever MLflow raises inside into a TrackingError, soon.

    Raises:
        TrackingError: If the store does not answer, or refuses something.
    """
    import sqlalchemy.exc

    try:
        path = database_path(uri)
        if path is not None and not path.exists():
            _create_database(path)
        check_reachable(uri)
        from mlflow.exceptions import MlflowException
    except (OSError, ImportError) as error:
        raise TrackingError(discreet(f"MLflow store {uri}: {error}")) from error
    try:
        yield
    except (MlflowException, sqlalchemy.exc.SQLAlchemyError, OSError) as error:
        first = str(error).partition("\n")[0]
        raise TrackingError(discreet(f"MLflow store {uri}: {first}")) from error


def open_client(uri: str) -> Any:
    """Return MLflow's client of the store, tracking and registry alike."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    _commit_to_sqlite_cheaply()
    return MlflowClient(uri, uri)


def store_artifact(uri: str, artifact_uri: str, path: Path, folder: str | None = None) -> None:
    """Put a file among a run's artifacts, without asking the store where those are.

    MLflow's client reads the whole run for that, which takes longer than the file.

    Args:
        uri: Of the tracking store.
        artifact_uri: Of the run, as the run itself says.
        path: The file.
        folder: Where among the artifacts; by default at their root.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository: Any = get_artifact_repository(artifact_uri, tracking_uri=uri)
    repository.log_artifact(str(path), folder)


def experiment_id(client: Any, uri: str, name: str) -> str:
    """Return the id of the experiment ``name``, made if absent.

    Raises:
        TrackingError: If it was deleted.
    """
    known = client.get_experiment_by_name(name)
    if known is None:
        made: str = client.create_experiment(name, _artifact_location(uri, name))
        return made
    if known.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow experiment {name!r} was deleted; restore it, or name the study otherwise."
        )
    found: str = known.experiment_id
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
    path = database_path(uri)
    if path is None:
        return None
    return (path.parent / "mlflow-artifacts" / re.sub(r"[^\w.-]+", "-", name)).as_uri()
