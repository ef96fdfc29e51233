"""MLflow stores in a PostgreSQL database, with no server of MLflow's before it; who answers.

Their address is MLflow's with the place for files, which a database has none for:
``postgresql://user@host/database?artifacts=/shared/mlflow-artifacts``. Whether a store of any kind
can be written to is said soon, where MLflow's client waits for minutes.

Those who write to one embedded store take turns. SQLite has no queue: whoever finds the database
taken looks again, later each time, and on a busy machine others come between until its patience
ends.
"""

import base64
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import cache
from pathlib import Path
from typing import IO
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from joulelab.errors import ConfigError, TrackingError, require
from joulelab.tracking.addresses import database_path, discreet

PATIENCE_S = 3.0
"""Longest wait for a store to answer."""
_SCHEME, _DRIVER, _PORT = "postgresql", "psycopg", 5432
_PLACE = "artifacts"
_CONNECT_S, _STATEMENT_S = 5, 30
_TURN_S = 600  # others that make the same tables first take up to a minute each on a busy machine
_LOCK = 0x6A6F756C65
"""Advisory lock of PostgreSQL under which tables are made: "joule" in ASCII."""


def is_database(uri: str) -> bool:
    """Return whether an address is that of a PostgreSQL database."""
    return urlsplit(uri).scheme.partition("+")[0] == _SCHEME


def check_database(uri: str) -> None:
    """Refuse an address without a place for files.

    Raises ConfigError if there is none, or the driver is not installed.
    """
    if artifacts_of(uri) is None:
        raise ConfigError(
            "A database has no place for files: add one that all nodes reach to its address "
            f"(...?{_PLACE}=/shared/mlflow-artifacts, or a URI of MLflow's), or give the address "
            f"of an MLflow server; got {discreet(uri)!r}."
        )
    if urlsplit(uri).scheme in (_SCHEME, f"{_SCHEME}+{_DRIVER}"):
        require(_DRIVER)


def artifacts_of(uri: str) -> str | None:
    """Return where the address of a database says that files go."""
    return dict(parse_qsl(urlsplit(uri).query)).get(_PLACE) if is_database(uri) else None


def mlflow_uri(uri: str) -> str:
    """Return the address as MLflow takes it; that of anything but a database as it is.

    MLflow waits for ever for a database that does not answer.
    """
    if not is_database(uri):
        return uri
    parts = urlsplit(uri)
    query = {
        "connect_timeout": f"{_CONNECT_S}",
        "options": f"-c statement_timeout={_STATEMENT_S}s",
        **dict(parse_qsl(parts.query)),
    }
    query.pop(_PLACE, None)
    scheme = f"{_SCHEME}+{_DRIVER}" if parts.scheme == _SCHEME else parts.scheme
    return urlunsplit(parts._replace(scheme=scheme, query=urlencode(query)))


@cache
def make_tables(uri: str) -> None:
    """Have MLflow make or check its tables, while no other process does so.

    Two that make them in a fresh database at the same time fail, and leave half of them.
    """
    import sqlalchemy
    from mlflow import MlflowClient

    engine = sqlalchemy.create_engine(mlflow_uri(uri), poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"SET statement_timeout = '{_TURN_S}s'"))
        connection.execute(sqlalchemy.text(f"SELECT pg_advisory_lock({_LOCK})"))
        MlflowClient(mlflow_uri(uri), mlflow_uri(uri)).search_experiments(max_results=1)


def check_reachable(uri: str, *, patience_s: float = PATIENCE_S) -> None:
    """Return if the store at ``uri`` can be written to within ``patience_s`` seconds.

    Raises TrackingError if it cannot; says why.
    """
    path = database_path(uri)
    if path is not None:
        _check_database(path, patience_s)
    elif is_database(uri):
        _check_database_server(uri, patience_s)
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


def _check_database_server(uri: str, patience_s: float) -> None:
    parts = urlsplit(uri)
    try:
        if parts.hostname:  # else by a socket of this machine, which answers at once
            socket.create_connection((parts.hostname, parts.port or _PORT), patience_s).close()
    except OSError as error:
        raise TrackingError(f"The database at {discreet(uri)} does not answer: {error}.") from error


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


TURN_S = 60.0
"""Longest wait for a turn, of which a batch takes some seconds on a very busy machine."""
_LOOK_S = 0.01


@contextmanager
def turn(path: Path | None) -> Generator[None]:
    """Have the turn at a SQLite file for the length of a ``with`` block; it must not be had yet.

    One of those who wait is the next, so that who had the turn has it again only after them. The
    kernel frees both locks however a process ends. ``None`` is no such file and knows no turns, nor
    does a folder without locks, or one that cannot be written to. Raises TrackingError if others
    have it for too long.
    """
    with ExitStack() as having:
        if path is not None and path.parent.is_dir():
            give_up_s = time.monotonic() + TURN_S
            with ExitStack() as waiting:
                _lock(path, "next", give_up_s, waiting)
                _lock(path, "turn", give_up_s, having)
        yield


def _lock(path: Path, name: str, give_up_s: float, held: ExitStack) -> None:
    """Hold a lock beside a file until ``held`` is closed."""
    try:
        file = held.enter_context(path.with_name(f"{path.name}-{name}").open("a"))
        while not _is_taken(file):
            if time.monotonic() > give_up_s:
                raise TrackingError(
                    f"A turn to write to the MLflow store {path} was to come within {TURN_S:g} s, "
                    "but other processes write to it all the time, or one of them hangs; "
                    "`joulelab sync` delivers later."
                )
            time.sleep(_LOOK_S)
    except OSError:
        return  # what keeps from writing, the store itself says


def _is_taken(file: IO[str]) -> bool:
    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True
