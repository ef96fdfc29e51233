"""The results of a study on disk: durable before anybody else hears of them.

A results folder holds::

    study.json                    what was asked for, by which command and code
    answer.json                   what was found, once the study has ended
    search.json                   what a search was asked and what it measured, likewise
    measurements/<writer>.jsonl   one line per measurement, appended and never changed
    traces/<measurement>.parquet  power and all else over time, on disk before its line
    delivered/<writer>.jsonl      which measurements a tracking store already has

Each writer appends to a file of its own, so writers need no lock, on one machine or on many.
"""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from joulelab.core.codec import decoded, from_json, to_json
from joulelab.core.measurement import SCHEMA_VERSION, Measurement
from joulelab.core.record import Record
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, JouleLabError, SchemaVersionError, TrackingError
from joulelab.tracking.addresses import discreet
from joulelab.tracking.durable import LineFile, check_file_name, read_lines, write_whole
from joulelab.tracking.study import Answer, StudyHeader, discreet_header
from joulelab.tracking.traces import can_write_traces, read_trace, trace_bytes

T = TypeVar("T")
AsNow = Callable[[Any], Any]
_logger = logging.getLogger(__name__)
_SHOWN = 200
_BROKEN = (ValueError, RecursionError, JouleLabError)

DEFAULT_RESULTS = Path("~/joulelab-results")
"""Where results go and every command looks for them, unless a folder is named.

Scripts and jobs run in folders that come and go; a home is there on every node.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The tracking store at ``target``, without user and password, has a measurement."""

    measurement_id: str
    target: str


class ResultStore:
    """Append-only store of a study's measurements in a folder.

    That is made when something is first written. ``writer`` is the name of this process among the
    study's writers, unique while it runs. Raises ConfigError if it cannot be a file name.
    """

    def __init__(self, folder: Path, writer: str = "driver") -> None:
        check_file_name("writer", writer)
        self.folder = folder
        self.broken: dict[str, str] = {}
        """Lines that were left out when the store was read, and what is wrong with each."""
        self._lines = LineFile(folder / "measurements" / f"{writer}.jsonl")
        self._ledger = LineFile(folder / "delivered" / f"{writer}.jsonl")

    def append(self, *records: Record) -> None:
        """Write ``records``, all or none; once this returns, no crash or power cut undoes it.

        Raises ConfigError if a measurement's id cannot be a file name; TrackingError if they cannot
        be written; the store is then as it was before.
        """
        lines = []
        for record in records:
            measurement = record.measurement
            check_file_name("measurement_id", measurement.measurement_id)
            lines.append(to_json(measurement))
            if record.trace is not None and can_write_traces():
                data = trace_bytes(record.trace, measurement.measurement_id, record.course)
                write_whole(self.trace_path(measurement.measurement_id), data)
        self._lines.append(lines, durable=True)

    def read(self, *, must_warn: bool = True) -> list[Measurement]:
        """Read every writer's measurements, each once, in the order in which they started.

        A last line that a crash cut short was never acknowledged: it is left out, and so is any
        other that is broken. :attr:`broken` keeps which, and the log says so once if it must.
        Raises TrackingError if a file cannot be read, or a line is of another version of joulelab.
        """
        found: dict[str, tuple[str, Measurement]] = {}
        broken: dict[str, str] = {}
        for path in self._files("measurements"):
            for number, line in read_lines(path):
                place = f"{path}:{number}"
                measurement = parsed(place, line)
                if isinstance(measurement, str):
                    broken[place] = measurement
                    continue
                first, known = found.setdefault(measurement.measurement_id, (place, measurement))
                if known != measurement:
                    broken[place] = f"has the measurement_id of another one, {first}"
                    broken[first] = f"has the measurement_id of another one, {place}"
        new = {place: why for place, why in broken.items() if place not in self.broken}
        self.broken |= new
        if new and must_warn:
            self._warn(new)
        kept = [measurement for place, measurement in found.values() if place not in broken]
        return sorted(kept, key=lambda m: m.provenance.started_at)

    @property
    def traces(self) -> Path:
        """The folder of the traces, which is there once there is one."""
        return self.folder / "traces"

    def trace_path(self, measurement_id: str) -> Path:
        """Return where the power samples of a measurement are, if it has any."""
        check_file_name("measurement_id", measurement_id)
        return self.traces / f"{measurement_id}.parquet"

    def read_trace(self, measurement_id: str) -> PowerTrace:
        """Read the power samples of a measurement.

        Raises TrackingError if it has none, or they cannot be read.
        """
        return read_trace(self.trace_path(measurement_id))

    def mark_delivered(self, measurement_ids: Iterable[str], *, target: str = "mlflow") -> None:
        """Note that ``target`` has these measurements.

        The note is a convenience and not made durable: a tracker refuses doubles by itself.
        """
        deliveries = [
            Delivery(measurement_id=id_, target=discreet(target)) for id_ in measurement_ids
        ]
        self._ledger.append([to_json(delivery) for delivery in deliveries], durable=False)

    def undelivered(self, *, target: str = "mlflow") -> list[Measurement]:
        """Read the measurements that nobody noted as delivered to ``target``."""
        delivered = self.delivered(target=target)
        return [m for m in self.read() if m.measurement_id not in delivered]

    def delivered(self, *, target: str = "mlflow") -> set[str]:
        """Read the ids of the measurements that are noted as delivered to ``target``."""
        return {
            delivery.measurement_id
            for path in self._files("delivered")
            for _, line in read_lines(path)
            if (delivery := delivery_of(line)) and discreet(delivery.target) == discreet(target)
        }

    def write_study(self, header: StudyHeader) -> None:
        """Write the study's header, without passwords and home folders.

        Raises ConfigError if the folder already belongs to another run of a study.
        """
        known = self.read_study()
        if known is not None and known.sweep_id != header.sweep_id:
            raise ConfigError(
                f"{self.folder} already holds study {known.name!r} (sweep {known.sweep_id}); "
                "give another results folder, or resume that sweep."
            )
        self.write_file("study.json", discreet_header(header))

    def read_study(self) -> StudyHeader | None:
        """Read the study's header; ``None`` where none was written."""
        header = self.read_file("study.json", StudyHeader)
        return None if header is None else discreet_header(header)

    def write_answer(self, answer: Answer) -> None:
        """Write what the study found, over an earlier answer."""
        self.write_file("answer.json", answer)

    def read_answer(self) -> Answer | None:
        """Read what the study found; ``None`` while it has not ended."""
        return self.read_file("answer.json", Answer)

    def write_file(self, name: str, value: object) -> None:
        """Write what there is one of in a study, such as its log, over an earlier one."""
        write_whole(self.folder / name, f"{to_json(value)}\n".encode())

    def read_file(
        self,
        name: str,
        kind: type[T],
        *,
        called: str = "",
        as_now: AsNow | None = None,
    ) -> T | None:
        """Read what :meth:`write_file` wrote; ``None`` where nothing was.

        ``as_now`` turns the JSON of an earlier version into that of this one. Raises TrackingError
        if it is no ``kind``, which is ``called`` this.
        """
        path = self.folder / name
        try:
            data = json.loads(path.read_bytes())
            return decoded(kind, data if as_now is None else as_now(data))
        except FileNotFoundError:
            return None
        except (*_BROKEN, LookupError, TypeError, AttributeError, OSError) as error:
            raise TrackingError(f"{path} is no {called or kind.__name__}: {error}") from error

    def close(self) -> None:
        """Close the files; what was appended is already on disk. Safe to call twice."""
        self._lines.close()
        self._ledger.close()

    def _warn(self, broken: dict[str, str]) -> None:
        """Say in the log which lines were left out."""
        place, why = next(iter(broken.items()))
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        _logger.warning(
            "Left out a broken line%s: %s %s. Set them aside with `joulelab repair %s`.",
            *(more, place, why, self.folder),
        )

    def _files(self, kind: str) -> list[Path]:
        return sorted((self.folder / kind).glob("*.jsonl"))


def study_folders(root: Path) -> list[Path]:
    """Return the results folders at or below ``root``, sorted by name; ``~`` is expanded.

    Raises ConfigError if there is none.
    """
    root = root.expanduser()
    folders = [path.parent for path in sorted(root.rglob("measurements")) if path.is_dir()]
    if not folders:
        found = "has none" if root.is_dir() else "is a file" if root.exists() else "does not exist"
        raise ConfigError(
            f"{root} must be a results folder or hold some (a folder with 'measurements/'); "
            f"it {found}."
        )
    return folders


def read_studies(*roots: Path) -> list[Measurement]:
    """Return what was measured in all results folders at or below ``roots``, in their order.

    Raises ConfigError if there is none; TrackingError if one cannot be read.
    """
    folders = [folder for root in roots for folder in study_folders(root)]
    return [measurement for folder in folders for measurement in ResultStore(folder).read()]


def measurement_from_json(text: str | bytes) -> Measurement:
    """Read a measurement from one line of JSON.

    Raises json.JSONDecodeError if it is not JSON; SchemaVersionError if it is of a schema version
    that this code does not know; TrackingError if it is no measurement.
    """
    data = json.loads(text)
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is int and version != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"schema_version must be {SCHEMA_VERSION}, got {version!r}; "
            "read it with the version of joulelab that wrote it (provenance.joulelab_version)."
        )
    if version != SCHEMA_VERSION:
        raise TrackingError(f"schema_version must be {SCHEMA_VERSION}, got {version!r}.")
    return decoded(Measurement, data)


def parsed(place: str, line: bytes) -> Measurement | str:
    """Return the measurement that a line at a place holds, or what is wrong with the line.

    Raises TrackingError if another version of joulelab wrote it.
    """
    try:
        return measurement_from_json(line)
    except SchemaVersionError as error:
        raise TrackingError(f"{place}: {error}") from error
    except _BROKEN as error:
        return f"is no measurement: {str(error)[:_SHOWN]}"


def delivery_of(line: bytes) -> Delivery | None:
    """Return the delivery that a line notes; ``None`` if it is broken."""
    try:
        return from_json(Delivery, line)
    except _BROKEN:
        return None
