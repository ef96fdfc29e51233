"""What guard and client say to each other: one JSON object per line, each way."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from joulelab import errors
from joulelab.core.codec import decoded
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, GuardError, JouleLabError, TrackingError

T = TypeVar("T")

PROTOCOL = 2
"""What is said with every message; 1 was before there was a version."""
LONGEST_LINE_B = 65536
STUDY_NOTE = "study in "
"""How the note of a study's lease begins; its results folder follows."""
_NAME = re.compile(r"[\w.:@+-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease in force."""

    address: DeviceAddress
    pid: int
    uid: int
    note: str  # what the holder said it is for
    expires_in_s: float  # time left without renewal
    point: str  # label of the operating point that was set, "default" if none was


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRestore:
    """A device that could not be restored yet and is being tried again."""

    address: DeviceAddress
    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardStatus:
    """What a guard is doing."""

    pid: int
    watchdog_pid: int | None  # the process that revives it; None without one
    leases: tuple[HeldLease, ...]
    pending: tuple[PendingRestore, ...]  # what still has to be restored


def encode(message: Mapping[str, Any]) -> bytes:
    """Return ``message`` as one line that says which protocol it speaks."""
    return json.dumps({**message, "protocol": PROTOCOL}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the object on ``line``; ConfigError if it holds none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"A message must be a JSON object on one line: {error}.") from error
    if not isinstance(message, dict):
        raise ConfigError(f"A message must be a JSON object, got {message!r:.80}.")
    return message


def printable(text: str, longest: int) -> str:
    """Return ``text`` as it may go into a log or onto a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:longest])


def error_reply(error: JouleLabError) -> dict[str, Any]:
    """Return the reply that makes :func:`result_of` raise ``error`` again at the client."""
    return {"error": {"kind": type(error).__name__, "message": str(error)}}


def result_of(reply: Mapping[str, Any]) -> Any:
    """Return what a reply carries.

    Raises:
        JouleLabError: The error that the guard met, in its own class; in :class:`GuardError`
            if it is none that we know, or if the guard is of another version of this package.
    """
    if "error" in reply:
        problem = reply["error"]
        kind = getattr(errors, str(problem["kind"]), None)
        if not (isinstance(kind, type) and issubclass(kind, JouleLabError)):
            kind = GuardError
        raise kind(printable(str(problem["message"]), LONGEST_LINE_B))
    if reply.get("protocol") != PROTOCOL:
        raise GuardError(
            f"The clock guard speaks protocol {reply.get('protocol')!r:.20}, this joulelab "
            f"{PROTOCOL}; end it with `joulelab guard --stop`, or use the joulelab it came with."
        )
    return reply["ok"]


def address_from(value: Any) -> DeviceAddress:
    """Read a device address from a request; ConfigError if it is none."""
    address = _asked(DeviceAddress, value, "address")
    if not all(map(_NAME.fullmatch, (address.backend, address.uuid))):
        raise ConfigError(f"address needs the names backend and uuid, got {value!r:.200}.")
    if address.store is not None and not address.store.isprintable():
        raise ConfigError(f"store must be the path of a folder, got {address.store!r:.200}.")
    return address


def point_from(value: Any) -> OperatingPoint:
    """Read an operating point from a request; ConfigError if it is none."""
    return _asked(OperatingPoint, value, "point")


def _asked(kind: type[T], value: Any, name: str) -> T:
    try:
        return decoded(kind, value, name)
    except TrackingError as error:
        raise ConfigError(str(error)) from error
