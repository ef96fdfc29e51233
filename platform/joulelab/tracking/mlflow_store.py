"""An MLflow store: made once, reached soon or not at all, and used without global state."""

import logging
import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joulelab.errors import TrackingError
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
        raise TrackingError(f"MLflow store {uri}: {error}") from error
    try:
        yield
    except (MlflowException, sqlalchemy.exc.SQLAlchemyError, OSError) as error:
        first = str(error).partition("\n")[0]
        raise TrackingError(f"MLflow store {uri}: {first}") from error


def open_client(uri: str) -> Any:
    """Return MLflow's client of the store, tracking and registry alike."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return MlflowClient(uri, uri)


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


def _create_database(path: Path) -> None:
    """Make the tables away from ``path`` and put them there at once.

    Two processes that open a fresh SQLite store at the same time crash in its migrations; and
    those sync to disk a thousand times, which a shared file system takes seconds for.
    """
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / path.name
        open_client(f"sqlite:///{draft}").search_experiments(max_results=1)
        publish(draft, path)


def _artifact_location(uri: str, name: str) -> str | None:
    """Return an absolute place beside an embedded store; a server knows its own."""
    path = database_path(uri)
    if path is None:
        return None
    return (path.parent / "mlflow-artifacts" / re.sub(r"[^\w.-]+", "-", name)).as_uri()
