"""Whether a tracking store answers, found out within seconds.

MLflow's own client waits 20 s for each statement on a locked database and minutes for a server
that is gone. A look beforehand keeps a study from waiting for either.
"""

import base64
import contextlib
import os
import re
import sqlite3
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import uuid4

from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.discreet import connectable, discreet
from joulelab.tracking.durable import check_folder

_ABANDONED_S = 600.0
PATIENCE_S = 3.0
"""Longest wait for a store to answer."""
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks", "file")


def usable_uri(uri: str) -> str:
    """Return the tracking URI to connect to for one that was given or stored.

    Nothing is asked over the network: a server that is down now may be up when results are there.

    Raises:
        ConfigError: If it can be none, lacks the password that it had, or its folder cannot be
            written to.
        TrackingError: If a SQLite path is not absolute.
    """
    uri = connectable(uri)
    try:
        parts = urlsplit(uri)
        named = parts.port is None or parts.port > 0
    except ValueError:
        parts, named = urlsplit(""), False
    scheme = parts.scheme.partition("+")[0]
    needs_host = scheme in ("http", "https")
    if (
        not named
        or scheme not in _SCHEMES
        or (needs_host and not parts.hostname)
        or re.search(r"[\x00-\x20\x7f]", uri)
    ):
        raise ConfigError(
            "An MLflow tracking URI must be the address of a server (http://host:5000) or "
            f"sqlite:////absolute/path.db, got {discreet(uri)!r}."
        )
    path = database_path(uri)
    if path is not None:
        if path.is_dir():
            raise ConfigError(f"{discreet(uri)!r} must name a file, but it is a folder.")
        check_folder(path.parent)
    return uri


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
            f"got {discreet(uri)!r}."
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


def publish(draft: sqlite3.Connection, path: Path) -> None:
    """Put the database ``draft`` at ``path`` at once, unless another process was first.

    What a process left that was killed while it did so is cleared away.

    Raises:
        OSError: If the file system refuses.
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
    shown, request = discreet(uri), _health_of(uri)
    try:
        with urllib.request.urlopen(request, timeout=patience_s):  # noqa: S310 - http(s) only
            pass
    except urllib.error.HTTPError as error:
        # An answer is an answer: a proxy may hide /health and yet serve the API.
        if error.code >= 500:
            raise TrackingError(f"The MLflow server at {shown} answers {error}.") from error
    except OSError as error:
        raise TrackingError(f"The MLflow server at {shown} does not answer: {error}.") from error


def _health_of(uri: str) -> urllib.request.Request:
    """Return the request for the server's health; a login goes into its header, as MLflow does."""
    parts = urlsplit(uri)
    login, _, host = parts.netloc.rpartition("@")
    health = urlunsplit(parts._replace(netloc=host, path=f"{parts.path.rstrip('/')}/health"))
    request = urllib.request.Request(health)  # noqa: S310 - http(s) only
    if login:
        token = base64.b64encode(unquote(login).encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    return request
