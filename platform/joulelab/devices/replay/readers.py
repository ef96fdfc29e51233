"""Recordings as they are stored: results folders of ours, and CSV files of clock sweeps.

A results folder has measurements as JSON lines, and power traces as Parquet files.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from joulelab.core.bounds import MOST_MHZ, MOST_S, MOST_W
from joulelab.core.device import DeviceIdentity, DeviceState
from joulelab.core.measurement import SCHEMA_VERSION
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.devices.replay.recording import Board, Knobs, Program, Take
from joulelab.errors import ConfigError

Line = dict[str, Any]


def read_results(folder: Path) -> tuple[Board, ...]:
    """Read a results folder; each GPU in it becomes a board.

    Only valid measurements are played. Each of their windows is a take, with the power trace that
    was stored beside it. Raises ConfigError if there is no valid measurement, or a line is none.
    """
    by_uuid: dict[str, list[Line]] = defaultdict(list)
    for path in sorted((folder / "measurements").glob("*.jsonl")):
        for line in _lines(path):
            if not line["findings"]:
                by_uuid[line["device"]["uuid"]].append(line)
    if not by_uuid:
        raise ConfigError(
            f"{folder} must be a results folder with valid measurements (measurements/*.jsonl), "
            "but has none."
        )
    return tuple(_board(folder, lines) for lines in by_uuid.values())


def _lines(path: Path) -> list[Line]:
    found: list[Line] = []
    # What a crash cut short has no line end; it was never a result.
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{path}:{number} is no JSON: {error}") from error
        if line.get("schema_version") != SCHEMA_VERSION:
            raise ConfigError(
                f"{path}:{number}: schema_version must be {SCHEMA_VERSION}, got "
                f"{line.get('schema_version')!r}."
            )
        found.append(line)
    return found


def _board(folder: Path, lines: list[Line]) -> Board:
    takes: dict[tuple[str, Knobs], dict[tuple[str, OperatingPoint], list[Take]]] = defaultdict(
        lambda: defaultdict(list)
    )
    idle_w: dict[OperatingPoint, list[float]] = defaultdict(list)
    states: dict[OperatingPoint, DeviceState] = {}
    for line in lines:
        configuration = line["configuration"]
        point = OperatingPoint(**configuration["point"])
        knobs = tuple((name, value) for name, value in configuration["knobs"])
        takes[configuration["workload"], knobs][line["phase"], point] += _takes(folder, line)
        states.setdefault(point, _state(line))
        if line["idle"] is not None:
            idle_w[point].append(line["idle"]["energy_j"] / line["idle"]["duration_s"])
    return Board(
        identity=_identity(lines[0]["device"]),
        programs=tuple(
            Program(workload=name, knobs=knobs, takes={at: tuple(t) for at, t in of.items()})
            for (name, knobs), of in takes.items()
        ),
        states=states,
        idle_power_w={point: fmean(powers_w) for point, powers_w in idle_w.items()},
    )


def _takes(folder: Path, line: Line) -> list[Take]:
    name = line["measurement_id"]
    trace = _read_trace(folder / "traces" / f"{name}.parquet")
    return [_take(window, name, trace) for window in line["windows"]]


def _take(window: Line, recording: str, trace: PowerTrace | None) -> Take:
    start_s, duration_s = window["start_s"], window["duration_s"]
    take = Take(
        duration_s=duration_s,
        work=window["work"],
        energy_j=window["energy_j"],
        recording=recording,
    )
    if trace is None or not trace.spans(start_s, start_s + duration_s):
        return take
    shifted_s = trace.t_s - start_s
    # One sample beyond each end, so that the piece still spans the window.
    first = int(np.searchsorted(shifted_s, 0.0, side="right")) - 1
    last = int(np.searchsorted(shifted_s, duration_s, side="left")) + 1
    piece = PowerTrace(t_s=shifted_s[first:last], power_w=trace.power_w[first:last])
    return replace(take, trace=piece)


def _read_trace(path: Path) -> PowerTrace | None:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    if not path.exists():
        return None
    table = pq.read_table(path, columns=["t_s", "power_w"]).drop_null()
    t_s, power_w = (np.asarray(table[name].to_numpy(), np.float64) for name in ("t_s", "power_w"))
    return PowerTrace(t_s=t_s, power_w=power_w)


def _state(line: Line) -> DeviceState:
    observed, point = line["observed"], line["configuration"]["point"]
    sm_clock_mhz = observed["sm_clock_mhz"] or point["sm_clock_mhz"]
    if sm_clock_mhz is None:
        raise ConfigError(f"Measurement {line['measurement_id']} does not tell its SM clock.")
    mem_clock_mhz = observed["mem_clock_mhz"]
    return DeviceState(
        sm_clock_mhz=round(sm_clock_mhz),
        mem_clock_mhz=None if mem_clock_mhz is None else round(mem_clock_mhz),
        temperature_c=observed["temperature_stop_c"],
        power_limit_w=point["power_limit_w"],
    )


def _identity(device: Line) -> DeviceIdentity:
    known = {field.name for field in fields(DeviceIdentity)}
    recorded = DeviceIdentity(**{name: value for name, value in device.items() if name in known})
    return replace(recorded, uuid=f"REPLAY-{recorded.uuid}", backend="replay")


COLUMNS = ("gpu", "app", "sm_clock_mhz", "power_w", "time_s")
"""What a table must have; ``mem_clock_mhz`` and ``idle_power_w`` are used where they are there."""
_MOST = {
    "sm_clock_mhz": MOST_MHZ,
    "mem_clock_mhz": MOST_MHZ,
    "power_w": MOST_W,
    "idle_power_w": MOST_W,
    "time_s": MOST_S,
}

_Row = Mapping[str, str]


def read_sweep_table(path: Path) -> tuple[Board, ...]:
    """Read a table; each of its GPUs becomes a board, each app a program of ``recorded``.

    A row is a take: it lasts ``time_s`` at constant ``power_w`` and does one run. Of repeats each
    measurement plays one, in turn. The driver's default is the highest clock at which an app was
    recorded. Raises ConfigError if a column is missing or a value is no positive number; names the
    line.
    """
    rows: dict[str, list[tuple[int, _Row]]] = defaultdict(list)
    for line, row in enumerate(read_csv_table(path, columns=COLUMNS), start=FIRST_LINE):
        rows[row["gpu"]].append((line, row))
    return tuple(_board_of_rows(path, gpu, of_gpu) for gpu, of_gpu in rows.items())


def _board_of_rows(path: Path, gpu: str, rows: list[tuple[int, _Row]]) -> Board:
    takes: dict[str, dict[OperatingPoint, list[Take]]] = defaultdict(lambda: defaultdict(list))
    states: dict[OperatingPoint, DeviceState] = {}
    idle_power_w: dict[OperatingPoint, float] = {}
    for line, row in rows:
        clock_mhz = round(_positive(path, line, row, "sm_clock_mhz"))
        point = OperatingPoint(sm_clock_mhz=clock_mhz)
        time_s = _positive(path, line, row, "time_s")
        energy_j = _positive(path, line, row, "power_w") * time_s
        takes[row["app"]][point].append(
            Take(duration_s=time_s, work=1.0, energy_j=energy_j, recording=f"{path.name}:{line}")
        )
        known = row.get("mem_clock_mhz")
        states[point] = DeviceState(
            sm_clock_mhz=clock_mhz,
            mem_clock_mhz=round(_positive(path, line, row, "mem_clock_mhz")) if known else None,
            temperature_c=None,
        )
        if row.get("idle_power_w"):
            idle_power_w[point] = _positive(path, line, row, "idle_power_w")
    highest = max(states, key=_clock_mhz)
    states[OperatingPoint()] = states[highest]
    if highest in idle_power_w:
        idle_power_w[OperatingPoint()] = idle_power_w[highest]
    return Board(
        identity=DeviceIdentity(
            uuid=f"REPLAY-{re.sub('[^A-Za-z0-9]+', '-', gpu).strip('-')}",
            name=gpu,
            backend="replay",
            driver_version="recorded",
        ),
        programs=tuple(_program(app, by_point) for app, by_point in takes.items()),
        states=states,
        idle_power_w=idle_power_w,
    )


def _program(app: str, by_point: dict[OperatingPoint, list[Take]]) -> Program:
    takes = {("run", point): tuple(of_point) for point, of_point in by_point.items()}
    takes["run", OperatingPoint()] = takes["run", max(by_point, key=_clock_mhz)]
    return Program(workload="recorded", knobs=(("app", app),), takes=takes)


def _positive(path: Path, line: int, row: _Row, name: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = 0.0
    if not 0 < value < _MOST[name]:
        raise ConfigError(
            f"{path}:{line}: {name} must be a positive number, got {row[name]!r}; "
            f"{_MOST[name]:g} is beyond every GPU."
        )
    return value


def _clock_mhz(point: OperatingPoint) -> int:
    return point.sm_clock_mhz or 0
