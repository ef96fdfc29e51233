"""One driver for each study: a lock on its results folder, freed by the kernel however it ends.

Not filelock's, which says neither who holds it nor that a file system has no locks, and with which
a process would have to know that it holds the lock already.
"""

import json
import logging
import os
import shlex
import socket
import sys
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import cache
from pathlib import Path
from typing import NoReturn

import psutil

from joulelab.core.codec import from_json
from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.addresses import discreet, embedded_uri

SHARED_KINDS = {
    *("nfs", "nfs4", "lustre", "cifs", "smb3", "beegfs", "afs"),
    *("fuse.sshfs", "fuse.glusterfs"),
}
"""Where SQLite may break, since several machines share files (sqlite.org/useovernet.html)."""
_LOCAL_LOCKS = {"nolock", "local_lock=all", "local_lock=flock", "localflock"}
"""Options of nfs(5) and mount.lustre(8) with which locks are not seen by other machines."""


def kind_of(path: Path) -> str:
    """Return the kind of the file system of ``path``, such as ``"nfs4"``; ``""`` if unknown."""
    return _mount_of(path)[0]


def has_local_locks(path: Path) -> bool:
    """Whether locks of files in ``path`` hold on this machine alone, though others share it."""
    return not _LOCAL_LOCKS.isdisjoint(_mount_of(path)[1].split(","))


def check_database_folder(path: Path) -> None:
    """Refuse to have a SQLite file at ``path`` if that is on a network's file system.

    Raises ConfigError, which says which kind it is, and what to do instead.
    """
    kind = kind_of(path.parent)
    if kind in SHARED_KINDS:
        raise ConfigError(
            f"An MLflow store in SQLite must be on a disk of this machine, but "
            f"{discreet(str(path.parent))} is on {kind}, where it may break. Give --tracking-uri "
            "the address of a server, of a PostgreSQL database, or sqlite:////LOCAL/FOLDER/"
            'mlflow.db; or "none", and deliver later with `joulelab sync`.'
        )


@cache
def default_store(folder: Path) -> str | None:
    """Return the URI of the embedded store in ``folder``; ``None`` where SQLite may break.

    The log says so once. Results are in their folder all the same.
    """
    uri = embedded_uri(folder)
    try:
        check_database_folder(Path(uri.removeprefix("sqlite:///")))
    except ConfigError as error:
        _logger.warning("MLflow gets nothing. %s", error)
        return None
    return uri


def _mount_of(path: Path) -> tuple[str, str]:
    """Return kind and options of the file system that ``path`` is on, or would be."""
    mounts = {
        Path(each.mountpoint): (each.fstype, each.opts)
        for each in psutil.disk_partitions(all=True)  # the last one on a place hides the others
    }
    real = path.expanduser().resolve()
    return next((mounts[each] for each in (real, *real.parents) if each in mounts), ("", ""))


_NAME = "lock"
_MOST_B = 65536
_SAME_START_S = 1.0  # the system's clock may be set between two looks at when a process began
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that has a study since some time, with its command line, without passwords.

    When the process began tells it from a later one of its number.
    """

    host: str
    pid: int
    process_start_s: float
    since: str
    command: str

    @property
    def words(self) -> str:
        """Who it is, in words."""
        return f"process {self.pid} on {self.host} since {self.since} ({self.command})"

    def is_same(self, other: "Holder") -> bool:
        """Whether both are one process."""
        mine, its = ((h.host, h.pid, h.process_start_s) for h in (self, other))
        return mine == its


class StudyLock(AbstractContextManager["StudyLock"]):
    """Keeps a results folder to this process while it is entered; within it, it is entered freely.

    Processes that this one starts do not inherit it. Where the file system has no locks, or none
    that other machines see, the log says so, and other processes of this machine alone are kept
    out. The folder is made if it is absent, and taken away again if nothing is in it in the end.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._made: list[Path] = []
        self._descriptor: int | None = None

    def __enter__(self) -> "StudyLock":
        """Take the study.

        Raises ConfigError if another process has it; says which, and nothing was touched;
        TrackingError if the folder cannot be written to.
        """
        folder = self._path.parent
        try:
            self._made = [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._locked(this_process())
        except OSError as error:
            raise TrackingError(f"Cannot lock {folder}: {error}") from error
        os.register_at_fork(after_in_child=self._let_go)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            self._let_go()
        for folder in self._made:
            with suppress(OSError):  # it holds results now
                folder.rmdir()

    def _locked(self, me: Holder) -> int | None:
        """Return the descriptor that holds the lock; ``None`` without one of its own."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                if not self._is_free(descriptor, me):
                    os.close(descriptor)
                    return None
                if self._is_still_there(descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, json.dumps(asdict(me)).encode(), 0)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_free(self, descriptor: int, me: Holder) -> bool:
        """Lock the file, and return whether that is needed and possible."""
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            holder = _read(descriptor)
            if holder is not None and holder.is_same(me):
                return False
            self._refuse("another process" if holder is None else holder.words)
        except OSError as error:
            return self._is_free_without_locks(me, str(error))
        if has_local_locks(self._path.parent):
            return self._is_free_without_locks(me, "locks are not seen by other machines")
        return True

    def _is_free_without_locks(self, me: Holder, why: str) -> bool:
        """Believe what the file says of a process of this machine, and warn of all others."""
        holder = holder_of(self._path.parent)
        if holder is not None and holder.host == me.host:
            if holder.is_same(me):
                return False
            self._refuse(holder.words)
        last = "" if holder is None else f" Make sure that it has ended: {holder.words}."
        _logger.warning("No lock on %s (%s): let one process only use it.%s", self._path, why, last)
        return True

    def _refuse(self, who: str) -> NoReturn:
        folder = self._path.parent
        raise ConfigError(
            f"Study {folder.name!r} is under way: {who} has it. Wait for it, end it, or use "
            f"another name. ({discreet(str(folder))})"
        )

    def _is_still_there(self, descriptor: int) -> bool:
        """Return whether the locked file has not been taken away by who had it before."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder_of(folder: Path) -> Holder | None:
    """Return the process that has the study in ``folder``; ``None`` if it has none.

    The lock is not tried, which could keep a study from starting just then: of a process of this
    machine it is known whether it is there, of another's it is taken for granted.
    """
    with suppress(OSError, ValueError, TrackingError):
        holder = from_json(Holder, (folder / _NAME).read_bytes())
        here = holder.host == socket.gethostname()
        if not here or still_runs(holder.pid, holder.process_start_s):
            return holder
    return None


def still_runs(pid: int, process_start_s: float) -> bool:
    """Whether process ``pid``, which began at a time in seconds since 1970, has not ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        is_same = abs(process.create_time() - process_start_s) < _SAME_START_S
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    return False


def this_process() -> Holder:
    """Return this process as one that takes a study now."""
    return Holder(
        host=socket.gethostname(),
        pid=os.getpid(),
        process_start_s=psutil.Process().create_time(),
        since=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=discreet(shlex.join(sys.argv)),
    )


def _read(descriptor: int) -> Holder | None:
    """Return who wrote the file; ``None`` while it is being written."""
    try:
        return from_json(Holder, os.pread(descriptor, _MOST_B, 0))
    except (ValueError, TrackingError):
        return None
