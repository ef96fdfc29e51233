"""Results kept on disk, each under a digest of all that it depends on.

A change of anything that went into the digest makes a new entry; old ones are never read again.
"""

import fcntl
import logging
import os
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from json import dumps
from pathlib import Path
from typing import TypeVar

import joulelab

T = TypeVar("T")

_logger = logging.getLogger(__name__)


def user_folder(kind: str) -> Path:
    """Return the folder of the XDG base directory specification for entries of ``kind``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "joulelab" / kind


def digest(identity: object) -> str:
    """Return 32 hex digits that name ``identity``, made of what JSON can hold."""
    return sha256(dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def source_digests(patterns: Iterable[str], *others: Path) -> list[str]:
    """Return digests of the files of this package that match ``patterns``, and of ``others``."""
    package = Path(joulelab.__file__).parent
    sources = {path for pattern in patterns for path in package.glob(pattern)}
    return [sha256(path.read_bytes()).hexdigest() for path in sorted(sources | set(others))]


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the installed packages ``names``."""
    return {name: _version(name) for name in names}


def read_entry(path: Path, decode: Callable[[str], T], *, what: str) -> T | None:
    """Return the entry at ``path``; ``None`` if there is none that can be read.

    Args:
        path: The entry's file.
        decode: Makes the value of its text; raises ``ValueError`` if it is none.
        what: What it is, for the log: ``"a cost"``.
    """
    try:
        return decode(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _logger.warning("Counting %s anew: %s cannot be read (%s).", what, path, error)
        return None


def write_entry(path: Path, text: str, *, what: str) -> None:
    """Make ``path`` hold ``text`` at once, whole; a folder that cannot be written is logged."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)
    except OSError as error:
        _logger.warning("%s is not kept: %s cannot be written (%s).", what, path, error)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock that dies with its process; do without where files cannot be locked."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError:
        yield
        return
    with lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
