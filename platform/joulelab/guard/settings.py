"""Where a guard listens, where it keeps its journal, and whom it serves."""

import grp
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from joulelab.errors import ConfigError, GuardError

SYSTEM_SOCKET = Path("/run/joulelab/guard.sock")
"""Where the systemd unit's guard listens."""

LONGEST_SOCKET_PATH_B = 100
"""``sun_path`` of a Unix socket holds 108 bytes on Linux; some are left for the end."""


def default_socket_path() -> Path:
    """Return the node's guard if an administrator runs one, else this user's own.

    The user's own is under ``/tmp`` and not under ``/run/user``, which goes when the last
    session ends: a journal must live as long as the clocks that it is about.
    """
    if SYSTEM_SOCKET.exists():
        return SYSTEM_SOCKET
    return Path(f"/tmp/joulelab-guard-{os.getuid()}/guard.sock")  # noqa: S108


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """How a guard runs.

    Attributes:
        socket_path: Unix socket to listen on; one guard per path.
        group: Group whose members may connect too; ``None`` admits the guard's user alone.
        max_ttl_s: Longest time for which a lease may go without renewal.
        idle_exit_s: Exit after so long without a client and with nothing set; ``None``: never.
    """

    socket_path: Path
    group: str | None = None
    max_ttl_s: float = 600.0
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
        """Folder of the journal, the locks and the log; beside the socket, on the same node."""
        return self.socket_path.with_suffix(".state")

    @property
    def log_path(self) -> Path:
        """What a guard that runs in the background says."""
        return self.state_dir / "guard.log"

    def make_folders(self) -> None:
        """Make the folders of socket and journal, fit for a process with privilege.

        Raises:
            ConfigError: If there is no such group as :attr:`group`.
            GuardError: If they cannot be made, or are such that another user could put a
                socket or a journal of his own in their place.
        """
        if self.group is not None:
            _require_group(self.group)
        try:
            self.socket_path.parent.mkdir(mode=0o755 if self.group else 0o700, exist_ok=True)
            self.state_dir.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.socket_path.parent, self.state_dir):
                _require_own(folder)
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
