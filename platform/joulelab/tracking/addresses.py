"""Addresses of tracking stores: as they are stored and shown, without passwords, and as used."""

import re
from pathlib import Path

from joulelab.errors import ConfigError, TrackingError

HIDDEN = "***"
"""Stands where a user and a password were."""
_LOGIN = re.compile(r"(?<=://)(?!/)[^\s\"<>]*@")
_SECRET = re.compile(
    r"([?&;](?:password|passwd|pwd|token|secret|api_?key|access_?key)=)[^&;\s#\"<>]+", re.IGNORECASE
)


def discreet(text: str) -> str:
    """Return ``text`` as it may be stored and shown.

    Users and passwords of addresses become ``***``, and this user's home folder becomes ``~``.
    """
    text = _SECRET.sub(rf"\1{HIDDEN}", _LOGIN.sub(f"{HIDDEN}@", text))
    for home in {str(Path.home()), str(Path.home().resolve())} - {"/"}:
        text = re.sub(rf"(?<!\w){re.escape(home)}(?![\w-])", "~", text)
    return text


def typed(path: str | Path) -> str:
    """Return a path discreetly, as one word of a shell, which knows no ``~`` within quotes."""
    return re.sub(r"[^\w@%+=:,./~-]", r"\\\g<0>", discreet(str(path)))


def connectable(uri: str) -> str:
    """Return the address that a stored one stands for.

    Raises ConfigError if it had a user or a password, which are not stored.
    """
    if HIDDEN in uri:
        raise ConfigError(
            f"The MLflow store {uri} needs a user or a password, and neither is stored: give the "
            "whole address again with --tracking-uri."
        )
    return uri.replace("sqlite:///~/", f"sqlite:///{Path.home()}/", 1)


def embedded_uri(folder: Path) -> str:
    """Return the URI of the MLflow store that lives in ``folder`` and needs no server."""
    return f"sqlite:///{(folder.expanduser() / 'mlflow.db').absolute()}"


def database_path(uri: str) -> Path | None:
    """Return the file of a SQLite URI; ``None`` for any other store.

    Raises TrackingError if the path is not absolute: it would depend on who asks, from where.
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
