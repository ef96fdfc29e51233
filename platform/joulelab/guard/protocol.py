"""What guard and client say to each other: one JSON object per line, each way."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import joulelab.errors
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, GuardError, JouleLabError

LONGEST_LINE_B = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the guard found on the device right after it set a point.

    Attributes:
        uuid: The device.
        requested: What was asked for.
        prior: What was in force before the lease, and will be again; ``None`` for a knob at
            its default or one that the driver does not tell.
        held: What the driver says is set; ``None`` where it does not tell.
        sm_clock_mhz: SM clock at that instant; an idle GPU may run below its lock.
        mem_clock_mhz: Memory clock at that instant; ``None`` where it cannot be read.
        power_limit_w: Power limit in force, in watts; ``None`` if unreadable.
    """

    uuid: str
    requested: OperatingPoint
    prior: OperatingPoint
    held: OperatingPoint | None
    sm_clock_mhz: int
    mem_clock_mhz: int | None
    power_limit_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease in force.

    Attributes:
        address: The device.
        pid: Process that holds it.
        uid: User of that process.
        note: What the holder said it is for.
        expires_in_s: Time left without renewal.
        point: Label of the operating point that was set, ``"default"`` if none was.
    """

    address: DeviceAddress
    pid: int
    uid: int
    note: str
    expires_in_s: float
    point: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRestore:
    """A device that could not be restored yet and is being tried again.

    Attributes:
        address: The device.
        attempts: How often it was tried.
        error: What the last try said.
    """

    address: DeviceAddress
    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardStatus:
    """What a guard is doing.

    Attributes:
        pid: The guard.
        watchdog_pid: The process that revives it; ``None`` without one.
        leases: Who holds what.
        pending: What still has to be restored.
    """

    pid: int
    watchdog_pid: int | None
    leases: tuple[HeldLease, ...]
    pending: tuple[PendingRestore, ...]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return ``message`` as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the object on ``line``.

    Raises:
        ConfigError: If it holds none.
    """
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"A message must be a JSON object on one line: {error}.") from error
    if not isinstance(message, dict):
        raise ConfigError(f"A message must be a JSON object, got {message!r}.")
    return message


def error_reply(error: JouleLabError) -> dict[str, Any]:
    """Return the reply that makes :func:`result_of` raise ``error`` again at the client."""
    return {"error": {"kind": type(error).__name__, "message": str(error)}}


def result_of(reply: Mapping[str, Any]) -> Any:
    """Return what a reply carries.

    Raises:
        JouleLabError: The error that the guard met, in its own class; in :class:`GuardError`
            if the guard is newer and knows classes that we do not.
    """
    if "error" not in reply:
        return reply["ok"]
    kind = getattr(joulelab.errors, reply["error"]["kind"], GuardError)
    raise kind(reply["error"]["message"])


def address_from(value: Any) -> DeviceAddress:
    """Read a device address from a request.

    Raises:
        ConfigError: If it is none.
    """
    fields = _object("address", value, {"backend", "uuid", "store"})
    wrong = [
        name
        for name, text in fields.items()
        if not isinstance(text, str) and not (name == "store" and text is None)
    ]
    if wrong or not {"backend", "uuid"} <= fields.keys():
        raise ConfigError(f"address needs the texts backend and uuid, got {value!r}.")
    return DeviceAddress(**fields)


def point_from(value: Any) -> OperatingPoint:
    """Read an operating point from a request.

    Raises:
        ConfigError: If it is none.
    """
    knobs = _object("point", value, {"sm_clock_mhz", "mem_clock_mhz", "power_limit_w"})
    for name, setting in knobs.items():
        allowed = (int, float) if name == "power_limit_w" else (int,)
        if setting is not None and type(setting) not in allowed:
            raise ConfigError(f"{name} must be a number, got {setting!r}.")
    return OperatingPoint(**knobs)


def receipt_from(value: dict[str, Any]) -> Receipt:
    """Read a receipt from a reply."""
    held = value.pop("held")
    return Receipt(
        requested=OperatingPoint(**value.pop("requested")),
        prior=OperatingPoint(**value.pop("prior")),
        held=None if held is None else OperatingPoint(**held),
        **value,
    )


def status_from(value: dict[str, Any]) -> GuardStatus:
    """Read a status from a reply."""
    return GuardStatus(
        pid=value["pid"],
        watchdog_pid=value["watchdog_pid"],
        leases=tuple(HeldLease(**_with_address(lease)) for lease in value["leases"]),
        pending=tuple(PendingRestore(**_with_address(one)) for one in value["pending"]),
    )


def _with_address(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "address": DeviceAddress(**value["address"])}


def _object(name: str, value: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or not value.keys() <= known:
        raise ConfigError(f"{name} must be an object of {', '.join(sorted(known))}, got {value!r}.")
    return value
