"""An NVIDIA GPU through DCGM's ``dcgmi``, which has an energy counter and unit activities.

Only those two come from DCGM (fields 156 and 1001 to 1008). Everything else comes from
``nvidia-smi``, which is part of every driver: its instant power is faster than DCGM's field
155, and DCGM's own way of setting clocks is application clocks, which NVIDIA has deprecated.
"""

import re
import time
from collections import deque
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

from typing_extensions import override

from joulelab.core.device import Activity, Capabilities, DeviceAddress
from joulelab.devices.base import ActivityProbe
from joulelab.devices.smi import SmiDevice
from joulelab.devices.tool import LineStream, ask_tool
from joulelab.errors import DeviceError, DeviceNotFoundError, MeasurementError

TOOL = "dcgmi"
PERIOD_S = 0.1
"""The shortest at which DCGM samples by itself."""
ENERGY_FIELD = 156

_ACTIVITY_FIELDS = {
    "gr_engine_active": 1001,
    "sm_active": 1002,
    "sm_occupancy": 1003,
    "tensor_active": 1004,
    "dram_active": 1005,
    "fp64_active": 1006,
    "fp32_active": 1007,
    "fp16_active": 1008,
}
_LISTED = re.compile(r"^\|\s*(?P<id>\d+)\s*\|")
_UUID = re.compile(r"Device UUID:\s*(?P<uuid>\S+)")


class DcgmDevice(SmiDevice):
    """One GPU, found by its UUID.

    Args:
        uuid: UUID of the whole GPU, ``"GPU-..."``.

    Raises:
        DeviceNotFoundError: If there is no such GPU; names those that there are.
        DeviceError: If ``dcgmi`` or ``nvidia-smi`` is absent or fails.
    """

    backend: ClassVar[str] = "dcgm"

    def __init__(self, uuid: str) -> None:
        super().__init__(uuid)
        self._entity = _entities()[uuid]
        self._energy = self._stream([ENERGY_FIELD])
        self._activities = _ActivityLog()
        self._activity = self._stream(list(_ACTIVITY_FIELDS.values()), self._activities)

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        return tuple(DeviceAddress(backend=cls.backend, uuid=uuid) for uuid in _entities())

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
        self._activity.latest()
        return _DcgmProbe(self._activity, self._activities)

    @override
    def close(self) -> None:
        self._energy.stop()
        self._activity.stop()
        super().close()

    @override
    def _find_capabilities(self) -> Capabilities:
        return replace(
            super()._find_capabilities(),
            has_energy_counter=self._answers([ENERGY_FIELD]),
            has_activity=self._answers([_ACTIVITY_FIELDS["sm_active"]]),
        )

    def _answers(self, fields: list[int]) -> bool:
        done = ask_tool([*self._command(fields), "-c", "1"])
        rows = [_parse_row(line, len(fields)) for line in done.stdout.splitlines()]
        return done.returncode == 0 and any(row and None not in row for row in rows)

    def _command(self, fields: list[int]) -> list[str]:
        asked = ",".join(map(str, fields))
        period_ms = str(round(PERIOD_S * 1000))
        return [TOOL, "dmon", "-i", str(self._entity), "-e", asked, "-d", period_ms]

    def _stream(
        self, fields: list[int], log: "_ActivityLog | None" = None
    ) -> LineStream[list[float | None]]:
        def parse(line: str) -> list[float | None] | None:
            row = _parse_row(line, len(fields))
            if log is not None and row is not None:
                log.add(row)
            return row

        return LineStream(self._command(fields), parse, PERIOD_S)


@dataclass(frozen=True, slots=True)
class _Row:
    at_s: float
    values: list[float | None]


class _ActivityLog:
    """The rows of the last hour, with the times at which they came."""

    def __init__(self) -> None:
        self._rows: deque[_Row] = deque(maxlen=36_000)

    def add(self, values: list[float | None]) -> None:
        self._rows.append(_Row(time.monotonic(), values))

    def since(self, at_s: float) -> list[list[float | None]]:
        return [row.values for row in self._rows.copy() if row.at_s >= at_s]


class _DcgmProbe(ActivityProbe):
    def __init__(self, stream: LineStream[list[float | None]], log: _ActivityLog) -> None:
        self._stream = stream
        self._log = log
        self._since_s = time.monotonic()

    @override
    def read(self) -> Activity:
        self._stream.latest()
        # A row is the mean of the period before it, which must have begun after the probe did.
        rows = self._log.since(self._since_s + PERIOD_S)
        if not rows:
            raise MeasurementError(
                f"Activity needs at least {2 * PERIOD_S:g} s between reads: DCGM printed no row "
                "that lies within."
            )
        self._since_s = time.monotonic()
        means = map(_mean, zip(*rows, strict=True))
        return Activity(**dict(zip(_ACTIVITY_FIELDS, means, strict=True)))


def _mean(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _entities() -> dict[str, int]:
    """UUIDs of the GPUs that DCGM knows, and its numbers for them.

    Raises:
        DeviceError: If DCGM is absent or its daemon does not answer.
    """
    done = ask_tool([TOOL, "discovery", "-l"])
    if done.returncode:
        said = " ".join(f"{done.stdout} {done.stderr}".split())
        raise DeviceError(
            f"{TOOL} cannot list GPUs: {said!r}; its daemon (nv-hostengine) must be running."
        )
    entities: dict[str, int] = {}
    number = None
    for line in done.stdout.splitlines():
        if listed := _LISTED.match(line):
            number = int(listed["id"])
        if (uuid := _UUID.search(line)) and number is not None:
            entities[uuid["uuid"]] = number
    if not entities:
        raise DeviceNotFoundError(f"{TOOL} knows of no GPU.")
    return entities


def _parse_row(line: str, num_fields: int) -> list[float | None] | None:
    """Values of a row such as ``GPU 0   689.123   N/A``; ``None`` for headings.

    Raises:
        DeviceError: If it is a row but not of ``num_fields`` numbers.
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
