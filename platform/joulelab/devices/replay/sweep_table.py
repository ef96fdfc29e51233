"""Published clock sweeps: a CSV with one run of one program at one clock per row."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from joulelab.core.bounds import MOST_MHZ, MOST_S, MOST_W
from joulelab.core.device import DeviceIdentity, DeviceState
from joulelab.core.point import OperatingPoint
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.devices.replay.recording import Board, Program, Take
from joulelab.errors import ConfigError

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
    recorded.

    Raises:
        ConfigError: If a column is missing or a value is no positive number; names the line.
    """
    rows: dict[str, list[tuple[int, _Row]]] = defaultdict(list)
    for line, row in enumerate(read_csv_table(path, columns=COLUMNS), start=FIRST_LINE):
        rows[row["gpu"]].append((line, row))
    return tuple(_board(path, gpu, of_gpu) for gpu, of_gpu in rows.items())


def _board(path: Path, gpu: str, rows: list[tuple[int, _Row]]) -> Board:
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
        states[point] = _state(path, line, row, clock_mhz)
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


def _state(path: Path, line: int, row: _Row, clock_mhz: int) -> DeviceState:
    known = row.get("mem_clock_mhz")
    return DeviceState(
        sm_clock_mhz=clock_mhz,
        mem_clock_mhz=round(_positive(path, line, row, "mem_clock_mhz")) if known else None,
        temperature_c=None,
    )


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
