"""What the guard set, written down before it was set."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

from joulelab.core.codec import from_json, to_json
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import TrackingError

Event = Literal["set", "restored"]
"""``set``: about to be set. ``restored``: verified to be back."""

_ROTATE_B = 4 * 2**20
_TAIL_B = 65536
"""Some two hundred lines: the last of them tells what is in force."""
_MOST_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal."""

    event: Event  # what it says of the device
    address: DeviceAddress
    detail: str  # why, in words
    # What was in force before the first of the set lines that are not yet undone.
    prior: OperatingPoint
    requested: OperatingPoint | None = None  # what is about to be set; None except on a set line
    pid: int | None = None  # process that asked; None where the guard acts by itself
    uid: int | None = None
    time: str  # when, UTC, ISO 8601
    boot_id: str  # which boot of the machine; hardware forgets its locks at the next one

    @property
    def is_owed(self) -> bool:
        """Whether the device may still hold what was set, and has to be restored.

        Locks on hardware that were set before the machine last booted are gone with that boot.
        """
        forgotten = self.address.store is None and self.boot_id != boot_id()
        return self.event == "set" and not forgotten


class Journal:
    """Append-only JSON lines, one file per device, each line on disk before the call returns.

    A process that dies while it appends leaves a torn last line. What that line was about had
    not been done yet, so the line is cut off and the one before it holds. Everybody on the
    machine may read the files: whoever measures must know whether somebody's lock is left.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(
        self,
        event: Event,
        address: DeviceAddress,
        *,
        detail: str,
        prior: OperatingPoint,
        requested: OperatingPoint | None = None,
        pid: int | None = None,
        uid: int | None = None,
    ) -> None:
        """Append a line.

        Raises OSError if it cannot be written; then nothing may be set.
        """
        entry = Entry(
            event=event,
            address=address,
            detail=detail,
            prior=prior,
            requested=requested,
            pid=pid,
            uid=uid,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            boot_id=boot_id(),
        )
        path = self.path_of(address)
        size_b = _append(path, f"{to_json(entry)}\n".encode())
        if event == "restored" and size_b > _ROTATE_B:
            path.replace(path.with_suffix(".old"))

    def owed(self) -> tuple[Entry, ...]:
        """Return the last ``set`` line of every device that is not known to be restored."""
        last = [_last_entry(path) for path in sorted(self._folder.glob("*.jsonl"))]
        return tuple(entry for entry in last if entry is not None and entry.is_owed)

    def owed_of(self, address: DeviceAddress) -> Entry | None:
        """Return the same for one device."""
        entry = _last_entry(self.path_of(address))
        return entry if entry is not None and entry.is_owed else None

    def mend(self) -> None:
        """Cut off torn lines, and forget the oldest of many devices to which nothing is owed."""
        paths = sorted(self._folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        for number, path in enumerate(paths):
            content = path.read_bytes()
            whole_b = content.rfind(b"\n") + 1
            if whole_b < len(content):
                os.truncate(path, whole_b)
            entry = _last_entry(path)
            if number < len(paths) - _MOST_FILES and not (entry is not None and entry.is_owed):
                path.unlink()

    def path_of(self, address: DeviceAddress) -> Path:
        """Return the file of the device, whichever backend talks to it."""
        name = re.sub(r"[^\w.-]", "_", address.uuid)[:80]
        digest = sha256(f"{address.uuid}\n{address.store}".encode()).hexdigest()[:8]
        return self._folder / f"{name}-{digest}.jsonl"


def boot_id() -> str:
    """Return what names this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _append(path: Path, line: bytes) -> int:
    """Append ``line`` durably, all of it or nothing; return the size of the file."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    try:
        os.fchmod(file, 0o644)
        start_b = os.fstat(file).st_size
        written_b = 0
        try:
            written_b = os.write(file, line)
            os.fsync(file)
        finally:
            if written_b < len(line):
                os.ftruncate(file, start_b)
    finally:
        os.close(file)
    if written_b < len(line):
        raise OSError(f"The disk took only {written_b} of {len(line)} bytes of a line of {path}.")
    return start_b + written_b


def _last_entry(path: Path) -> Entry | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_B))
            whole, _, _ = file.read().rpartition(b"\n")
    except FileNotFoundError:
        return None
    entries = (_parsed(line) for line in reversed(whole.split(b"\n")))
    return next((entry for entry in entries if entry is not None), None)


def _parsed(line: bytes) -> Entry | None:
    try:
        return from_json(Entry, line)
    except (ValueError, TrackingError):
        return None
