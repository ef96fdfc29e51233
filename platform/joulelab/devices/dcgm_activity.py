"""Unit activities from DCGM's profiling fields (1001 to 1008), for boards from Volta on."""

import logging
import time
from collections import deque
from dataclasses import dataclass
from statistics import fmean

from typing_extensions import override

from joulelab.core.device import Activity
from joulelab.devices.base import ActivityProbe
from joulelab.devices.dcgm_tool import PERIOD_S, answers, entities, parse_row, row_command
from joulelab.devices.tool import LineStream
from joulelab.errors import DeviceError, MeasurementError

_log = logging.getLogger(__name__)

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
    """The activities of one GPU, from a ``dcgmi`` that runs from the first probe on.

    Args:
        entity: DCGM's number of the GPU.
    """

    def __init__(self, entity: int) -> None:
        self._entity = entity
        self._log = _Log()
        command = row_command(entity, list(_FIELDS.values()))
        self._stream = LineStream(command, self._take, PERIOD_S)

    def are_counted(self) -> bool:
        """Ask whether DCGM profiles this GPU."""
        return answers(self._entity, _FIELDS["sm_active"])

    def probe(self) -> ActivityProbe:
        """Start counting.

        Raises:
            DeviceError: If ``dcgmi`` ends or falls silent.
        """
        self._stream.latest()
        return _Probe(self._stream, self._log)

    def optional_probe(self) -> ActivityProbe:
        """Start counting; what DCGM fails to tell is unread, and costs no more than itself."""
        return _OptionalProbe(self)

    def stop(self) -> None:
        """End the tool. Safe to call twice; the next probe starts it again."""
        self._stream.stop()

    def _take(self, line: str) -> list[float | None] | None:
        row = parse_row(line, len(_FIELDS))
        if row is not None:
            self._log.add(row)
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


@dataclass(frozen=True, slots=True)
class _Row:
    at_s: float
    values: list[float | None]


class _Log:
    """The rows of the last hour, with the times at which they came."""

    def __init__(self) -> None:
        self._rows: deque[_Row] = deque(maxlen=36_000)

    def add(self, values: list[float | None]) -> None:
        self._rows.append(_Row(time.monotonic(), values))

    def since(self, at_s: float) -> list[list[float | None]]:
        return [row.values for row in self._rows.copy() if row.at_s >= at_s]


class _Probe(ActivityProbe):
    def __init__(self, stream: LineStream[list[float | None]], log: _Log) -> None:
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
