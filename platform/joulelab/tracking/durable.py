"""Files that survive a crash: appended lines, and whole files that appear at once."""

import json
import logging
import os
import re
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from joulelab.errors import ConfigError, TrackingError

_logger = logging.getLogger(__name__)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]{0,150}")
_SHOWN = 200
LEAST_FREE_B = 2 * 10**9
"""Free space below which a study may find no room for its results and traces, in bytes."""


def check_file_name(what: str, name: str) -> None:
    """Refuse a name that could leave its folder or that a file system could not hold.

    Raises ConfigError, which says which characters are allowed.
    """
    if not _FILE_NAME.fullmatch(name):
        raise ConfigError(
            f"{what} must be 1 to 151 letters, digits or _.+=@- and start with a letter, digit "
            f"or _, because it names a file; got {name[:_SHOWN]!r}."
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder in which no file can be made; none is left, nor a folder that was not there.

    Raises ConfigError, which says why.
    """
    try:
        with for_now(folder), NamedTemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"{str(folder)[:_SHOWN]!r} must be a folder in which files can be made: {why}."
        ) from error


@contextmanager
def for_now(folder: Path) -> Generator[None]:
    """Make a folder for a ``with`` block; what was not there before goes again, unless in use."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for each in missing:
            with suppress(OSError):  # somebody uses it by now
                each.rmdir()


def check_file(path: Path) -> None:
    """Refuse a file that could not be made, before what it is to hold is worked out.

    Raises ConfigError if it is a folder, or its folder is absent or cannot be written to.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {str(folder)[:_SHOWN]!r} to write into.")
    if path.is_dir():
        raise ConfigError(f"{str(path)[:_SHOWN]!r} must name a file, but it is a folder.")
    check_folder(folder)


class LineFile:
    """A file of lines with one writer, who only ever appends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def append(self, lines: Sequence[str], *, durable: bool) -> None:
        """Append ``lines``, without ends, in one write; all of them or, if that fails, none.

        If ``durable``, return only once they are on disk. Raises TrackingError if they cannot be
        written.
        """
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            descriptor = self._open()
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, data)
                if durable:
                    os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        except OSError as error:
            raise TrackingError(f"Cannot append to {self.path}: {error}") from error

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o644)
            self._mend()
            _sync_folder(self.path.parent)
        return self._descriptor

    def _mend(self) -> None:
        """End or remove a last line that an earlier writer of this name left without its end."""
        data = self.path.read_bytes()
        if self._descriptor is None or data.endswith(b"\n") or not data:
            return
        whole, tail = _split_tail(data)
        if _is_json(tail):
            _write_all(self._descriptor, b"\n")
        else:
            _logger.warning("%s: removed a last line that a crash had cut short.", self.path)
            os.ftruncate(self._descriptor, len(whole))


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Read the lines of a :class:`LineFile` with their numbers, from 1.

    A last line without its end that is no JSON was cut short by a crash, or is being written
    just now: it is left out and the log says so.
    """
    whole, tail = _split_tail(path.read_bytes())
    lines = whole.splitlines()
    yield from enumerate(lines, start=1)
    if _is_json(tail):
        yield len(lines) + 1, tail
    elif tail:
        _logger.warning("%s:%d was cut short and is left out.", path, len(lines) + 1)


def write_whole(path: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Make ``path`` hold ``data``; a reader sees the old file or the new, never half.

    Text is written in UTF-8, its ends of lines as they are. If ``durable``, return only once it is
    on disk. Raises TrackingError if it cannot be written.
    """
    writer = f"{socket.gethostname()}-{os.getpid()}"  # several nodes may share the folder
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
            if durable:
                _sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise TrackingError(f"Cannot write {path}: {error}") from error


def _split_tail(data: bytes) -> tuple[bytes, bytes]:
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
