"""What a recording holds, however it is stored, and those that are tables of clock sweeps."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from joulelab.core.bounds import MOST_MHZ, MOST_S, MOST_W
from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceIdentity, DeviceState
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError

Knobs = tuple[tuple[str, KnobValue], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Take:
    """One recorded stretch of a program at work."""

    duration_s: float
    work: float
    energy_j: float
    recording: str  # name of the observation that it is of, such as a file and its line
    # Power during it on a clock that starts with it, spanning it; None where only its mean is
    # known. Its shape is played, at the height that gives energy_j.
    trace: PowerTrace | None = None

    def __post_init__(self) -> None:
        for name in ("duration_s", "work", "energy_j"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} of a take must be positive, got {getattr(self, name)}.")

    def energy_until_j(self, at_s: float) -> float:
        """Energy used from the start until ``at_s`` into the take."""
        if self.trace is None or at_s <= 0:
            return self.energy_j * at_s / self.duration_s
        return self._scale * self.trace.energy_j(0.0, min(at_s, self.duration_s))

    def power_w(self, at_s: float) -> float:
        """Power ``at_s`` into the take."""
        if self.trace is None:
            return self.energy_j / self.duration_s
        return self._scale * float(np.interp(at_s, self.trace.t_s, self.trace.power_w))

    @property
    def _scale(self) -> float:
        if self.trace is None:
            return 1.0
        return self.energy_j / self.trace.energy_j(0.0, self.duration_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One configured workload, recorded at some operating points."""

    workload: str
    knobs: Knobs
    # What was recorded, by phase and operating point.
    takes: Mapping[tuple[str, OperatingPoint], tuple[Take, ...]]

    @property
    def label(self) -> str:
        """Short name for messages."""
        knobs = ", ".join(f"{name}={value}" for name, value in self.knobs)
        return f"{self.workload}({knobs})"

    def find(self, phase: str, point: OperatingPoint, turn: int) -> tuple[Take, ...]:
        """Return the takes of one recording of ``phase`` at ``point``; after the last the first.

        Raises:
            ConfigError: If there are none; names what there is next to it.
        """
        if (phase, point) in self.takes:
            takes = self.takes[phase, point]
            recordings = list(dict.fromkeys(take.recording for take in takes))
            played = recordings[turn % len(recordings)]
            return tuple(take for take in takes if take.recording == played)
        points = [there for name, there in self.takes if name == phase]
        raise ConfigError(
            f"{self.label} was not recorded in phase {phase!r} at {point.label}; "
            f"it was at {_nearest(point, points)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Board:
    """One recorded GPU."""

    identity: DeviceIdentity  # which it was; its UUID begins with REPLAY-
    programs: tuple[Program, ...]
    states: Mapping[OperatingPoint, DeviceState]  # how it looked at each operating point
    # Its power at rest at each operating point, in watts, where recorded.
    idle_power_w: Mapping[OperatingPoint, float]


def _nearest(point: OperatingPoint, points: Iterable[OperatingPoint]) -> str:
    """Name the recorded points around ``point``: its neighbours by SM clock, else all."""
    by_clock = sorted(
        (there for there in points if there.sm_clock_mhz is not None),
        key=lambda there: there.sm_clock_mhz or 0,
    )
    wanted_mhz = point.sm_clock_mhz
    if wanted_mhz is None or not by_clock:
        return ", ".join(sorted(there.label for there in points)) or "no point at all"
    below = [there for there in by_clock if (there.sm_clock_mhz or 0) < wanted_mhz][-1:]
    above = [there for there in by_clock if (there.sm_clock_mhz or 0) > wanted_mhz][:1]
    return " and ".join(there.label for there in below + above) or by_clock[0].label


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
