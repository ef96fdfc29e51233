"""An NVIDIA GPU through DCGM's ``dcgmi``, which has an energy counter and unit activities.

Only those two come from DCGM (fields 156 and 1001 to 1008, for boards from Volta on). Everything
else comes from ``nvidia-smi``, which is part of every driver: its instant power is faster than
DCGM's field 155, and DCGM's own way of setting clocks is application clocks, which NVIDIA has
deprecated.
"""

import logging
import re
import time
from collections import deque
from dataclasses import replace
from statistics import fmean
from typing import ClassVar

from typing_extensions import override

from joulelab.core.device import Activity, Capabilities, DeviceAddress
from joulelab.devices.base import ActivityProbe
from joulelab.devices.smi import SmiDevice
from joulelab.devices.tool import LineStream, ask_tool
from joulelab.errors import DeviceError, DeviceNotFoundError, MeasurementError

ENERGY_FIELD = 156


class DcgmDevice(SmiDevice):
    """One GPU, found by the UUID of the whole of it, ``"GPU-..."``.

    Raises DeviceNotFoundError if there is no such GPU; names those that there are; DeviceError if
    ``dcgmi`` or ``nvidia-smi`` is absent or fails.
    """

    backend: ClassVar[str] = "dcgm"

    def __init__(self, uuid: str) -> None:
        super().__init__(uuid)
        self._entity = entities()[uuid]
        command = row_command(self._entity, [ENERGY_FIELD])
        self._energy = LineStream(command, lambda line: parse_row(line, 1), PERIOD_S)
        self._activities = DcgmActivities(self._entity)

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        return tuple(DeviceAddress(backend=cls.backend, uuid=uuid) for uuid in entities())

    @override
    def read_energy_j(self) -> float:
        """Read the energy counter as DCGM saw it last, at most about 0.1 s ago."""
        self._whole()
        (energy_mj,) = self._energy.latest()
        if energy_mj is None:
            raise self._unsupported("energy counter")
        return energy_mj * 1e-3

    @override
    def activity(self) -> ActivityProbe:
        self._whole()
        if not self.capabilities().has_activity:
            raise self._unsupported("activity counters")
        return self._activities.probe()

    @override
    def close(self) -> None:
        self._energy.stop()
        self._activities.stop()
        super().close()

    @override
    def _find_capabilities(self) -> Capabilities:
        return replace(
            super()._find_capabilities(),
            has_energy_counter=answers(self._entity, ENERGY_FIELD),
            has_activity=self._activities.are_counted(),
        )


_log = logging.getLogger(__name__)

_Rows = deque[tuple[float, list[float | None]]]
_FIELDS = {
    "gr_engine_active": 1001,
    "sm_active": 1002,
    "sm_occupancy": 1003,
    "tensor_active": 1004,
    "dram_active": 1005,
    "fp64_active": 1006,
    "fp32_active": 1007,
    "fp16_active": 1008,
}


class DcgmActivities:
    """The activities of one GPU, from a ``dcgmi`` that runs from the first probe on."""

    def __init__(self, entity: int) -> None:
        self._entity = entity
        # Rows of the last hour, with the times at which they came.
        self._rows: _Rows = deque(maxlen=36_000)
        command = row_command(entity, list(_FIELDS.values()))
        self._stream = LineStream(command, self._take, PERIOD_S)

    def are_counted(self) -> bool:
        """Ask whether DCGM profiles this GPU."""
        return answers(self._entity, _FIELDS["sm_active"])

    def probe(self) -> ActivityProbe:
        """Start counting; DeviceError if ``dcgmi`` ends or falls silent."""
        self._stream.latest()
        return _Probe(self._stream, self._rows)

    def optional_probe(self) -> ActivityProbe:
        """Start counting; what DCGM fails to tell is unread, and costs no more than itself."""
        return _OptionalProbe(self)

    def stop(self) -> None:
        """End the tool. Safe to call twice; the next probe starts it again."""
        self._stream.stop()

    def _take(self, line: str) -> list[float | None] | None:
        row = parse_row(line, len(_FIELDS))
        if row is not None:
            self._rows.append((time.monotonic(), row))
        return row


def activities_of(uuid: str) -> DcgmActivities | None:
    """Find the activities that DCGM counts of a GPU which another backend reads.

    Returns:
        ``None`` where DCGM is absent, does not answer, or does not profile this GPU.
    """
    try:
        entity = entities().get(uuid)
        found = None if entity is None else DcgmActivities(entity)
        return found if found is not None and found.are_counted() else None
    except DeviceError as error:
        _log.info("DCGM counts no activities of %s: %s", uuid, error)
        return None


class _Probe(ActivityProbe):
    def __init__(self, stream: LineStream[list[float | None]], rows: _Rows) -> None:
        self._stream, self._rows = stream, rows
        self._since_s = time.monotonic()

    @override
    def read(self) -> Activity:
        self._stream.latest()
        # A row is the mean of the period before it, which must have begun after the probe did.
        first_s = self._since_s + PERIOD_S
        rows = [row for at_s, row in self._rows.copy() if at_s >= first_s]
        if not rows:
            raise MeasurementError(
                f"Activity needs at least {2 * PERIOD_S:g} s between reads: DCGM printed no row "
                "that lies within."
            )
        self._since_s = time.monotonic()
        means = map(_mean, zip(*rows, strict=True))
        return Activity(**dict(zip(_FIELDS, means, strict=True)))


class _OptionalProbe(ActivityProbe):
    def __init__(self, activities: DcgmActivities) -> None:
        self._activities = activities
        self._probe: ActivityProbe | None = None
        try:
            self._probe = activities.probe()
        except DeviceError as error:
            self._give_up(error)

    @override
    def read(self) -> Activity:
        if self._probe is not None:
            try:
                return self._probe.read()
            except DeviceError as error:
                self._give_up(error)
        return Activity()

    def _give_up(self, error: DeviceError) -> None:
        _log.warning("Unit activities are unread: %s", error)
        self._probe = None
        self._activities.stop()


def _mean(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


TOOL = "dcgmi"
PERIOD_S = 0.1
"""The shortest at which DCGM samples by itself."""

_LISTED = re.compile(r"^\|\s*(?P<id>\d+)\s*\|")
_UUID = re.compile(r"Device UUID:\s*(?P<uuid>\S+)")


def entities() -> dict[str, int]:
    """Return the UUIDs of the GPUs that DCGM knows, and its numbers for them.

    Raises DeviceError if DCGM is absent or its daemon does not answer.
    """
    done = ask_tool([TOOL, "discovery", "-l"])
    if done.returncode:
        output = " ".join(f"{done.stdout} {done.stderr}".split())
        raise DeviceError(
            f"{TOOL} cannot list GPUs: {output!r}; its daemon (nv-hostengine) must be running."
        )
    found: dict[str, int] = {}
    number = None
    for line in done.stdout.splitlines():
        if listed := _LISTED.match(line):
            number = int(listed["id"])
        if (uuid := _UUID.search(line)) and number is not None:
            found[uuid["uuid"]] = number
    if not found:
        raise DeviceNotFoundError(f"{TOOL} knows of no GPU.")
    return found


def row_command(entity: int, fields: list[int]) -> list[str]:
    """Return the command that prints ``fields`` of a GPU, a row every :data:`PERIOD_S`."""
    asked = ",".join(map(str, fields))
    period_ms = str(round(PERIOD_S * 1000))
    return [TOOL, "dmon", "-i", str(entity), "-e", asked, "-d", period_ms]


def answers(entity: int, field: int) -> bool:
    """Return whether a GPU has a number for ``field``."""
    done = ask_tool([*row_command(entity, [field]), "-c", "1"])
    rows = [parse_row(line, 1) for line in done.stdout.splitlines()]
    return done.returncode == 0 and any(row and None not in row for row in rows)


def parse_row(line: str, num_fields: int) -> list[float | None] | None:
    """Return the values of a row such as ``GPU 0   689.123   N/A``; ``None`` for headings.

    Raises DeviceError if it is a row but not of ``num_fields`` numbers.
    """
    words = line.split()
    if words[:1] != ["GPU"]:
        return None
    values = words[2:]
    try:
        row = [None if word == "N/A" else float(word) for word in values]
    except ValueError as error:
        raise DeviceError(f"{TOOL} must print numbers, but said {line.strip()!r}.") from error
    if len(row) != num_fields:
        raise DeviceError(f"{TOOL} must print {num_fields} values, but said {line.strip()!r}.")
    return row
