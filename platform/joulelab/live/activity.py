"""What the process that measures on a GPU tells other processes of its node: a small file each.

A file is put in place whole, between measurements, and lies beside the journal of the user's own
clock guard, which outlives every session. One whose process has ended, however, is no longer true.
"""

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from joulelab.core.codec import from_json, to_json
from joulelab.core.device import DeviceAddress
from joulelab.errors import JouleLabError
from joulelab.guard.settings import GuardSettings, user_socket_path
from joulelab.tracking.durable import write_whole
from joulelab.tracking.study_lock import still_runs

_FOLDER = "activity"
_MOST_B = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTrial:
    """The trial that a process ended last on a GPU."""

    trial: str  # its name
    # Energy in its windows, all phases together, in joules; None if it is invalid
    energy_j: float | None = None
    # Energy per unit of work of the whole request, in joules, likewise
    energy_per_unit_j: float | None = None
    unit: str = ""  # unit of work, in the singular
    reason: str | None = None  # why it has no energy; None if it has


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The operating point of least energy so far, beside the driver's own clocks, on one board."""

    point: str  # its label; "default" if nothing was better
    energy_ratio: float  # energy per unit over that at the driver's clocks with the same knobs
    time_ratio: float  # time per unit, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialActivity:
    """What a process does on a GPU for a study."""

    address: DeviceAddress  # the GPU, as the process reaches it
    uid: int  # user of the process
    pid: int  # the process
    process_start_unix_s: float  # when it began, which tells it from a later one of its number
    folder: str  # results folder of the study, as the process sees it
    since_unix_s: float  # when the trial began, or else the last one ended, in seconds since 1970
    study: str | None = None  # name of the study; None before the first trial
    trial: str | None = None  # trial that is being measured; None between trials
    num_measured: int = 0  # trials that the process has ended
    last: EndedTrial | None = None  # the one that it ended last; None before the first
    # What clocks have saved so far on this board; None where the driver's own clocks were not
    # measured by this process with the same knobs
    saving: Saving | None = None

    @property
    def is_current(self) -> bool:
        """Whether its process, and of that user, is still there."""
        with suppress(psutil.Error):
            is_theirs = psutil.Process(self.pid).uids().real == self.uid
            return is_theirs and still_runs(self.pid, self.process_start_unix_s)
        return False

    def is_on(self, address: DeviceAddress) -> bool:
        """Whether it is on the GPU at ``address``, which may be reached by another backend."""
        mine, other = self.address, address
        return mine.uuid == other.uuid and _place(mine.store) == _place(other.store)


class ActivityFile:
    """Tells what this process does on one GPU for the study in a results folder.

    ``activity`` is what was published last; at first, that this process exists. It lies beside the
    clock guard at ``guard_socket``; ``None``, and a guard of another user's, stand for the user's
    own. Raises JouleLabError or OSError if there is no place to tell it.
    """

    def __init__(
        self, address: DeviceAddress, folder: Path, guard_socket: Path | None = None
    ) -> None:
        self.activity = TrialActivity(
            address=address,
            uid=os.getuid(),
            pid=os.getpid(),
            process_start_unix_s=psutil.Process().create_time(),
            folder=str(folder),
            since_unix_s=time.time(),
        )
        self._path = _own_folder(guard_socket) / f"{address.uuid}-{os.getpid()}.json"
        for other in self._path.parent.glob("*.json"):
            if (found := _read(other)) is None or not found.is_current:
                other.unlink(missing_ok=True)

    def tell(self, activity: TrialActivity) -> None:
        """Replace what was published before; TrackingError if it cannot be written."""
        write_whole(self._path, to_json(activity), durable=False)
        self.activity = activity

    def close(self) -> None:
        """Tell nothing any longer. Safe to call twice."""
        self._path.unlink(missing_ok=True)


def read_activities(guard_socket: Path | None = None) -> tuple[TrialActivity, ...]:
    """Read what processes of this node do on its GPUs, those of other users where they let it.

    ``guard_socket`` is that of studies, besides which their user's own is looked at.
    """
    folders = [user_socket_path(os.getuid())] if guard_socket is None else [guard_socket]
    folders += _OTHERS.parent.glob(_OTHERS.name)
    found = {path: _read(path) for folder in folders for path in _folder(folder).glob("*.json")}
    current = [each for each in found.values() if each is not None and each.is_current]
    return tuple(sorted(current, key=lambda each: each.since_unix_s))


_OTHERS = user_socket_path(0).parent.with_name("joulelab-guard-*") / "guard.sock"


def _folder(guard_socket: Path) -> Path:
    return GuardSettings(socket_path=guard_socket).state_dir / _FOLDER


def _own_folder(guard_socket: Path | None) -> Path:
    """Make the folder in which this user tells, as open to others as the user's files are."""
    own = user_socket_path(os.getuid())
    socket_path = guard_socket or own
    try:
        GuardSettings(socket_path=socket_path).make_folders()
    except JouleLabError:
        socket_path = own
        GuardSettings(socket_path=own).make_folders()
    folder = _folder(socket_path)
    folder.mkdir(exist_ok=True)
    return folder


def _read(path: Path) -> TrialActivity | None:
    """Read what a process published; ``None`` if it is nothing, or not the user's that it names.

    Anybody may have put anything there: a link, a pipe, a file without end.
    """
    with (
        suppress(OSError, ValueError, RecursionError, JouleLabError),
        open(path, "rb", opener=_open_plainly) as file,
    ):
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_B:
            found = from_json(TrialActivity, file.read(_MOST_B))
            return found if found.uid == status.st_uid else None
    return None


def _open_plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _place(store: str | None) -> Path | None:
    return None if store is None else Path(store).expanduser().absolute()
