"""What a recording holds, however it is stored; and how it is played, as sensors show it."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from joulelab.core.clock import Clock
from joulelab.core.configuration import KnobValue, knob_words
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
        return f"{self.workload}({knob_words(self.knobs)})"

    def find(self, phase: str, point: OperatingPoint, turn: int) -> tuple[Take, ...]:
        """Return the takes of one recording of ``phase`` at ``point``; after the last the first.

        Raises ConfigError if there are none; names what there is next to it.
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


SAMPLE_PERIOD_S = 0.02
BUFFER_S = 2.4
"""An H200's driver holds 119 samples, 20 ms apart."""
_SAME_S = 1e-3
"""Samples closer than this are one to whoever reads them."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What goes on from ``start_s``: a take, rest at a known power, or nobody knows."""

    start_s: float
    take: Take | None
    rest_w: float | None

    @property
    def is_known(self) -> bool:
        return self.take is not None or self.rest_w is not None

    def energy_until_j(self, at_s: float) -> float:
        if self.take is not None:
            return self.take.energy_until_j(min(at_s - self.start_s, self.take.duration_s))
        return (self.rest_w or 0.0) * (at_s - self.start_s)

    def power_w(self, at_s: float) -> float | None:
        return self.rest_w if self.take is None else self.take.power_w(at_s - self.start_s)


class Player:
    """The sensors of a device that plays a recording; threads may read them while it plays.

    Where nothing was recorded, as at rest in most published tables, the sensors are blank: the
    counter stands still, there are no samples, and power is ``None``. What was recorded is sampled
    at its very ends too, so that all of it is covered.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before_j = 0.0
        self._stretches = deque([_Stretch(clock.now_s(), None, None)])
        self._turn = threading.RLock()

    def play(self, take: Take, rest_w: float | None) -> None:
        """Play ``take`` to its end, and rest at ``rest_w`` from then on."""
        start_s = self._clock.now_s()
        self._begin(start_s, take, None)
        self._clock.sleep_s(take.duration_s)
        self._begin(start_s + take.duration_s, None, rest_w)

    def rest(self, rest_w: float | None) -> None:
        """Rest at ``rest_w`` from now on, unless a take is playing."""
        with self._turn:
            current = self._stretches[-1]
            if current.take is None and current.rest_w != rest_w:
                self._begin(self._clock.now_s(), None, rest_w)

    def energy_j(self) -> float:
        """Energy of all that was played so far."""
        with self._turn:
            return self._energy_until_j(self._clock.now_s())

    def power_w(self) -> float | None:
        """Power now; ``None`` where nothing was recorded."""
        with self._turn:
            return self._stretches[-1].power_w(self._clock.now_s())

    def samples(self) -> PowerTrace:
        """Power samples of the last seconds; those of unrecorded stretches are missing."""
        with self._turn:
            now_s = self._clock.now_s()
            known = dict(self._edges())
            last = int(now_s / SAMPLE_PERIOD_S)
            times_s = np.arange(last - round(BUFFER_S / SAMPLE_PERIOD_S) + 1, last + 1)
            for at_s in (times_s * SAMPLE_PERIOD_S).tolist():
                power_w = self._power_at_w(at_s)
                if power_w is not None and all(abs(at_s - edge_s) > _SAME_S for edge_s in known):
                    known[at_s] = power_w
        t_s = np.array(sorted(known), float)
        return PowerTrace(t_s=t_s, power_w=np.array([known[at_s] for at_s in t_s.tolist()], float))

    def _begin(self, at_s: float, take: Take | None, rest_w: float | None) -> None:
        with self._turn:
            self._before_j = self._energy_until_j(at_s)
            self._stretches.append(_Stretch(at_s, take, rest_w))
            while len(self._stretches) > 1 and self._stretches[1].start_s < at_s - BUFFER_S:
                self._stretches.popleft()

    def _energy_until_j(self, at_s: float) -> float:
        return self._before_j + self._stretches[-1].energy_until_j(at_s)

    def _edges(self) -> Iterator[tuple[float, float]]:
        """Yield when what was recorded begins and ends beside what was not, and its power there."""
        lasting = [
            each for each, after in pairwise(self._stretches) if each.start_s < after.start_s
        ]
        for before, after in pairwise([*lasting, self._stretches[-1]]):
            if before.is_known != after.is_known:
                power_w = (before if before.is_known else after).power_w(after.start_s)
                if power_w is not None:
                    yield after.start_s, power_w

    def _power_at_w(self, at_s: float) -> float | None:
        for stretch in reversed(self._stretches):
            if stretch.start_s <= at_s:
                return stretch.power_w(at_s)
        return None
