"""Whether a tracking store answers, found out within seconds.

MLflow's own client waits 20 s for each statement on a locked database and minutes for a server
that is gone. A look beforehand keeps a study from waiting for either.
"""

import contextlib
import os
import sqlite3
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from joulelab.errors import TrackingError

PATIENCE_S = 3.0
"""Longest wait for a store to answer."""


def database_path(uri: str) -> Path | None:
    """Return the file of a SQLite URI; ``None`` for any other store.

    Raises:
        TrackingError: If the path is not absolute: it would depend on who asks, from where.
    """
    if not uri.startswith("sqlite:"):
        return None
    path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    if not path.is_absolute():
        raise TrackingError(
            f"A SQLite tracking URI must hold an absolute path (sqlite:////results/mlflow.db), "
            f"got {uri!r}."
        )
    return path


def check_reachable(uri: str, *, patience_s: float = PATIENCE_S) -> None:
    """Return if the store at ``uri`` can be written to within ``patience_s`` seconds.

    Raises:
        TrackingError: If it cannot; says why.
    """
    path = database_path(uri)
    if path is not None:
        _check_database(path, patience_s)
    elif urlsplit(uri).scheme in {"http", "https"}:
        _check_server(uri, patience_s)


def publish(finished: Path, path: Path) -> None:
    """Put the file ``finished`` at ``path`` at once, unless another process was first.

    Raises:
        OSError: If the file system refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        near = Path(folder) / path.name  # on the same file system: linked whole or not at all
        near.write_bytes(finished.read_bytes())
        with contextlib.suppress(FileExistsError):
            os.link(near, path)


def _check_database(path: Path, patience_s: float) -> None:
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=patience_s)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise TrackingError(f"The MLflow store {path} cannot be written: {error}.") from error


def _check_server(uri: str, patience_s: float) -> None:
    health = f"{uri.rstrip('/')}/health"
    try:
        with urllib.request.urlopen(health, timeout=patience_s):  # noqa: S310 - http(s) only
            pass
    except urllib.error.HTTPError as error:
        # An answer is an answer: a proxy may hide /health and yet serve the API.
        if error.code >= 500:
            raise TrackingError(f"The MLflow server at {uri} answers {error}.") from error
    except OSError as error:
        raise TrackingError(f"The MLflow server at {uri} does not answer: {error}.") from error
