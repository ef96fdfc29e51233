"""Where a guard listens, where it keeps its journal, and whom it serves."""

import grp
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.devices.choice import is_hardware
from joulelab.errors import ConfigError, GuardError

SYSTEM_SOCKET = Path("/run/joulelab/guard.sock")
"""Where the systemd unit's guard listens."""

LONGEST_SOCKET_PATH_B = 100
"""``sun_path`` of a Unix socket holds 108 bytes on Linux; some are left for the end."""


def default_socket_path(address: DeviceAddress | None = None) -> Path:
    """Return the node's guard if an administrator runs one, else this user's own.

    A device that is no hardware is always for the user's own: its state is in files of the user's,
    which a guard that serves others does not touch.
    """
    lends_hardware = address is None or is_hardware(address)
    if lends_hardware and SYSTEM_SOCKET.parent.is_dir():
        return SYSTEM_SOCKET
    return user_socket_path(os.getuid())


def user_socket_path(uid: int) -> Path:
    """Return where the own guard of a user listens.

    It is under ``/tmp`` and not under ``/run/user``, which goes when the last session ends: a
    journal must live as long as the clocks that it is about.
    """
    return Path(f"/tmp/joulelab-guard-{uid}/guard.sock")  # noqa: S108


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """How a guard runs."""

    socket_path: Path  # Unix socket to listen on; one guard per path
    # Group whose members may connect too; None admits the guard's user alone.
    group: str | None = None
    max_ttl_s: float = 600.0  # longest time for which a lease may go without renewal
    # Exit after so long without a client and with nothing set; None: never.
    idle_exit_s: float | None = None

    def __post_init__(self) -> None:
        length_b = len(os.fsencode(self.socket_path))
        if length_b > LONGEST_SOCKET_PATH_B or not self.socket_path.is_absolute():
            raise ConfigError(
                f"socket_path must be absolute and at most {LONGEST_SOCKET_PATH_B} bytes long, "
                f"got {length_b}: {self.socket_path}."
            )
        if not self.max_ttl_s > 0:
            raise ConfigError(f"max_ttl_s must be positive, got {self.max_ttl_s}.")
        if self.idle_exit_s is not None and not self.idle_exit_s > 0:
            raise ConfigError(f"idle_exit_s must be positive or None, got {self.idle_exit_s}.")

    @property
    def state_dir(self) -> Path:
        """Folder of the journal, the locks and the logs; beside the socket, on the same node."""
        return self.socket_path.with_suffix(".state")

    @property
    def log_path(self) -> Path:
        """What a guard that runs in the background says."""
        return self.state_dir / "guard.log"

    @property
    def watchdog_log_path(self) -> Path:
        """What its watchdog says; two processes cannot rotate one file."""
        return self.state_dir / "watchdog.log"

    @property
    def heartbeat_path(self) -> Path:
        """Where a guard says that it is alive."""
        return self.state_dir / "heartbeat"

    def make_folders(self) -> None:
        """Make the folders of socket and journal, fit for a process with privilege.

        Raises ConfigError if there is no such group as :attr:`group`; GuardError if they cannot be
        made, or are such that another user could put a socket or a journal of his own in their
        place.
        """
        if self.group is not None:
            _require_group(self.group)
        try:
            for folder in (self.socket_path.parent, self.state_dir):
                folder.mkdir(mode=0o755, exist_ok=True)
                _require_own(folder)
            self.state_dir.chmod(0o755)  # whatever the umask: others may read the journal
        except OSError as error:
            raise GuardError(
                f"The clock guard needs a folder of its own at {self.socket_path.parent}: {error}."
            ) from error


def _require_group(name: str) -> None:
    try:
        grp.getgrnam(name)
    except KeyError:
        raise ConfigError(
            f"group must be one that this machine has, got {name!r}; "
            f"make it with `groupadd --system {name}`."
        ) from None


def _require_own(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise GuardError(f"{folder} must be a folder that belongs to uid {os.getuid()}.")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise GuardError(f"{folder} must not be writable by others; chmod go-w {folder}.")


def require_trusted(socket_path: Path) -> None:
    """Refuse a socket that another user could have put there, before anything is said to it.

    Raises FileNotFoundError if there is none; GuardError if it, or its folder, belongs to another
    user than this one or root.
    """
    for path in (socket_path.parent, socket_path):
        status = path.stat()
        if status.st_uid not in (0, os.getuid()) or _is_open(status):
            raise GuardError(
                f"A clock guard's socket must be in a folder of root's or of uid {os.getuid()}'s "
                f"that others cannot write, but {path} belongs to uid {status.st_uid} (mode "
                f"{stat.S_IMODE(status.st_mode):o}); somebody may pose as the guard."
            )


def require_own_store(store: str | None, uid: int) -> None:
    """Refuse to write into a folder of state that the user who asks has not made.

    Raises GuardError if this process serves others, or the folder, or for root one above it, is not
    its user's alone.
    """
    own = os.getuid()
    if uid != own:
        raise GuardError(
            f"This clock guard runs as uid {own} and writes files for that user only; start a "
            "guard of your own for simulated or recorded devices."
        )
    path = Path(store or "")
    if not path.is_absolute() or not path.exists():
        raise GuardError(f"store must be an absolute path that exists, got {store!r}.")
    # Root's guard follows nobody's links: what it writes is written with root's rights.
    for part in [path, *path.parents] if own == 0 else [path]:
        status = part.lstat() if own == 0 else part.stat()
        if status.st_uid != own or stat.S_ISLNK(status.st_mode) or _is_open(status):
            raise GuardError(
                f"store must belong to uid {own}, without links and where others cannot write, "
                f"which is not so of {part}; give another store."
            )


def _is_open(status: os.stat_result) -> bool:
    """Whether others may put a file of their own in the place of one in this folder."""
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and bool(writable) and not status.st_mode & stat.S_ISVTX
