"""Replay at the pace of the run: pauses for kernels whose clock the power limit lowers when alone.

A product of matrices, launched over and over, meets the power limit at a clock below the one that
it has in a program, where lighter kernels take turns with it. What its energy would be at the
program's clock is not left to a law of voltage: it is measured again with pauses, so long that the
board has about the mean power of the program, and so about its clock. No setter is called.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from joulelab.attribution.profile import PhaseProfile, main_phases, that_matter
from joulelab.core.measurement import Measurement
from joulelab.tracing.program import LINKS_AWAKE

_LOWERED = 0.98
"""A clock below this share of the program's is another one: two steps of an H100."""
_LEAST_POWER = 0.75
"""Share of its power alone down to which pauses bring a kernel: no limit is near any more."""

_PACED = 0.95
"""Share of a phase's energy above static whose kernels are paced, if they are slowed: the law of
voltage, which the rest is left to, is up to 15 % off (experiments/results/h200_pauses)."""

ClockFactor = Callable[[float | None, float | None], float]
"""Energy above static at one SM clock over that at another, in MHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What was read of a program or of a kernel alone, be it valid or not.

    A kernel that the power limit keeps from a locked clock is not, and may be with pauses.
    """

    sm_clock_mhz: float
    power_w: float
    time_s: float  # per unit of work

    @classmethod
    def of(cls, read: Measurement) -> "Means | None":
        """Return them; ``None`` where no window ran, or no clock was read."""
        clock_mhz = read.observed.sm_clock_mhz
        if clock_mhz is None or not read.windows:
            return None
        seconds = sum(window.duration_s for window in read.windows)
        return cls(
            sm_clock_mhz=clock_mhz,
            power_w=sum(window.energy_j for window in read.windows) / seconds,
            time_s=seconds / sum(window.work for window in read.windows),
        )


class Pause(NamedTuple):
    """What a device rests after each launch of a kernel."""

    duration_s: float
    sm_clock_mhz: float  # that the kernel shall have, and clocks of the pause are counted at


def pauses(
    alone: Mapping[str, Measurement],
    measured: Mapping[str, Measurement],
    profiles: Sequence[PhaseProfile],
    factor: ClockFactor,
) -> Mapping[str, Pause]:
    """Return the pause after a launch of each kernel that matters and whose clock was lowered.

    ``alone`` are replays by kernel, ``measured`` the program by phase.
    """
    # Links are awake whatever the clock is.
    means = {
        name: own
        for name, read in alone.items()
        if name != LINKS_AWAKE and (own := _Alone.of(read)) is not None
    }
    asked = set(that_matter([_joules(profile, means) for profile in profiles], _PACED))
    runs = {phase: Means.of(program) for phase, program in measured.items()}
    return {
        name: Pause(means[name].rests_s(run, factor), run.sm_clock_mhz)
        for name, phase in main_phases(profiles).items()
        if name in asked and (run := runs[phase]) and means[name].is_slowed(run)
    }


def _joules(profile: PhaseProfile, alone: Mapping[str, "_Alone"]) -> Mapping[str, float]:
    """Return what each distinct kernel of a phase takes above static power."""
    joules: dict[str, float] = {}
    for call in profile.calls:
        if call.kernel in alone:
            joules[call.kernel] = joules.get(call.kernel, 0.0) + alone[call.kernel].launch_j
    return joules


class _Alone(NamedTuple):
    """A kernel back to back."""

    read: Means
    static_w: float

    @classmethod
    def of(cls, measurement: Measurement) -> "_Alone | None":
        read = Means.of(measurement)
        idle = measurement.idle
        return None if read is None or idle is None else cls(read, idle.power_w)

    @property
    def launch_j(self) -> float:
        """Energy of a launch above static power."""
        return (self.read.power_w - self.static_w) * self.read.time_s

    def is_slowed(self, run: Means) -> bool:
        return self.read.sm_clock_mhz < _LOWERED * run.sm_clock_mhz

    def rests_s(self, run: Means, factor: ClockFactor) -> float:
        """Return how long it rests after a launch, so that it has the power of a program."""
        own = self.read
        joules = self.launch_j * factor(run.sm_clock_mhz, own.sm_clock_mhz)
        busy_s = own.time_s * own.sm_clock_mhz / run.sm_clock_mhz
        power_w = min(own.power_w, max(run.power_w, _LEAST_POWER * own.power_w))
        return max(0.0, joules / (power_w - self.static_w) - busy_s)
