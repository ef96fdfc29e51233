"""What a recording holds, however it is stored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceIdentity, DeviceState
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
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
