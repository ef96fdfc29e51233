"""Whether an MLflow store can be written to: said soon, where MLflow's client waits for minutes."""

import base64
import sqlite3
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from joulelab.errors import TrackingError
from joulelab.tracking.addresses import database_path, discreet
from joulelab.tracking.mlflow_database import check_database_server, is_database

PATIENCE_S = 3.0
"""Longest wait for a store to answer."""


def check_reachable(uri: str, *, patience_s: float = PATIENCE_S) -> None:
    """Return if the store at ``uri`` can be written to within ``patience_s`` seconds.

    Raises:
        TrackingError: If it cannot; says why.
    """
    path = database_path(uri)
    if path is not None:
        _check_database(path, patience_s)
    elif is_database(uri):
        check_database_server(uri, patience_s)
    elif urlsplit(uri).scheme in {"http", "https"}:
        _check_server(uri, patience_s)


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
