"""On what kind of file system a folder lies, and what may be relied on there."""

import logging
from functools import cache
from pathlib import Path

import psutil

from joulelab.errors import ConfigError
from joulelab.tracking.addresses import discreet, embedded_uri

SHARED_KINDS = {
    *("nfs", "nfs4", "lustre", "cifs", "smb3", "beegfs", "afs"),
    *("fuse.sshfs", "fuse.glusterfs"),
}
"""Where SQLite may break, since several machines share files (sqlite.org/useovernet.html)."""
_LOCAL_LOCKS = {"nolock", "local_lock=all", "local_lock=flock", "localflock"}
"""Options of nfs(5) and mount.lustre(8) with which locks are not seen by other machines."""

_logger = logging.getLogger(__name__)


def kind_of(path: Path) -> str:
    """Return the kind of the file system of ``path``, such as ``"nfs4"``; ``""`` if unknown."""
    return _mount_of(path)[0]


def has_local_locks(path: Path) -> bool:
    """Whether locks of files in ``path`` hold on this machine alone, though others share it."""
    return not _LOCAL_LOCKS.isdisjoint(_mount_of(path)[1].split(","))


def check_database_folder(path: Path) -> None:
    """Refuse to have a SQLite file at ``path`` if that is on a network's file system.

    Raises:
        ConfigError: Says which kind it is, and what to do instead.
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
        _logger.warning("MLflow is told nothing. %s", error)
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
