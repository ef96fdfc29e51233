"""What the guard set, written down before it was set."""

import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint

Event = Literal["set", "restored", "note"]
"""``set``: about to be set. ``restored``: verified to be back. ``note``: changes nothing."""

_ROTATE_B = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal.

    Attributes:
        event: What it says of the device.
        address: The device.
        detail: Why, in words.
        prior: What was in force before the first of the ``set`` lines that are not yet undone.
        requested: What is about to be set; ``None`` except on a ``set`` line.
        pid: Process that asked; ``None`` where the guard acts by itself.
        uid: User of that process.
        time: When, UTC, ISO 8601.
        boot_id: Which boot of the machine; hardware forgets its locks at the next one.
    """

    event: Event
    address: DeviceAddress
    detail: str
    prior: OperatingPoint
    requested: OperatingPoint | None = None
    pid: int | None = None
    uid: int | None = None
    time: str
    boot_id: str


class Journal:
    """Append-only JSON lines, one file per device, each line on disk before the call returns.

    A process that dies while it appends leaves a torn last line. What that line was about had
    not been done yet, so the line is cut off and the one before it holds.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._boot_id = boot_id()

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
        """Append a line; notes are not forced to disk, the others are.

        Raises:
            OSError: If it cannot be written; then nothing may be set.
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
            boot_id=self._boot_id,
        )
        line = json.dumps(asdict(entry), separators=(",", ":")) + "\n"
        path = self.path_of(address)
        _append(path, line.encode(), durable=event != "note")
        if event == "restored" and path.stat().st_size > _ROTATE_B:
            path.replace(path.with_suffix(".old"))

    def outstanding(self) -> tuple[Entry, ...]:
        """Return the last ``set`` line of every device that is not known to be restored.

        Locks on hardware that were set before the machine last booted are gone with that boot.
        """
        found = []
        for path in sorted(self._folder.glob("*.jsonl")):
            _cut_torn_tail(path)
            last = _last_change(path)
            if last is not None and last.event == "set" and not self._is_void(last):
                found.append(last)
        return tuple(found)

    def path_of(self, address: DeviceAddress) -> Path:
        """Return the file of the device, whichever backend talks to it."""
        name = re.sub(r"[^\w.-]", "_", address.uuid)[:80]
        digest = sha256(f"{address.uuid}\n{address.store}".encode()).hexdigest()[:8]
        return self._folder / f"{name}-{digest}.jsonl"

    def _is_void(self, entry: Entry) -> bool:
        return entry.address.store is None and entry.boot_id != self._boot_id


def boot_id() -> str:
    """Return what names this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _append(path: Path, line: bytes, *, durable: bool) -> None:
    with path.open("ab", buffering=0) as file:
        start_b = file.seek(0, os.SEEK_END)
        written_b = 0
        try:
            written_b = file.write(line)
            if durable:
                os.fsync(file.fileno())
        finally:
            if written_b < len(line):
                file.truncate(start_b)
    if written_b < len(line):
        raise OSError(f"The disk took only {written_b} of {len(line)} bytes of a line of {path}.")


def _cut_torn_tail(path: Path) -> None:
    content = path.read_bytes()
    whole_b = content.rfind(b"\n") + 1
    if whole_b < len(content):
        os.truncate(path, whole_b)


def _last_change(path: Path) -> Entry | None:
    for line in reversed(path.read_text(errors="replace").split("\n")):
        entry = _parsed(line)
        if entry is not None and entry.event != "note":
            return entry
    return None


def _parsed(line: str) -> Entry | None:
    try:
        values: dict[str, Any] = json.loads(line)
        values["address"] = DeviceAddress(**values["address"])
        for name in ("prior", "requested"):
            values[name] = None if values[name] is None else OperatingPoint(**values[name])
        return Entry(**values)
    except (ValueError, KeyError, TypeError):
        return None
