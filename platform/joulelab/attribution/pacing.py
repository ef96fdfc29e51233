"""Replay at the pace of the run: pauses for kernels whose clock the power limit lowers when alone.

A product of matrices, launched over and over, meets the power limit at a clock below the one that
it has in a program, where lighter kernels take turns with it. What its energy would be at the
program's clock is not left to a law of voltage: it is measured again with pauses, so long that the
board has about the mean power of the program, and so about its clock. No setter is called.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from joulelab.attribution.profile import PhaseProfile, first_phases
from joulelab.core.measurement import Measurement
from joulelab.tracing.program import LINKS_AWAKE

_LOWERED = 0.98
"""A clock below this share of the program's is another one: two steps of an H100."""
_LEAST_POWER = 0.75
"""Share of its power alone down to which pauses bring a kernel: no limit is near any more."""

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


def pauses_s(
    alone: Mapping[str, Measurement],
    measured: Mapping[str, Measurement],
    profiles: Sequence[PhaseProfile],
    factor: ClockFactor,
) -> Mapping[str, float]:
    """Return the pause after a launch, in seconds, of each kernel whose clock alone was lowered.

    ``alone`` are replays by kernel, ``measured`` the program by phase.
    """
    # Links are awake whatever the clock is.
    found = {
        name: _pause_s(alone[name], measured[phase], factor)
        for name, phase in first_phases(profiles).items()
        if name in alone and name != LINKS_AWAKE
    }
    return {name: pause_s for name, pause_s in found.items() if pause_s is not None}


def _pause_s(alone: Measurement, program: Measurement, factor: ClockFactor) -> float | None:
    kernel, run = Means.of(alone), Means.of(program)
    if kernel is None or run is None or alone.idle is None:
        return None
    if kernel.sm_clock_mhz >= _LOWERED * run.sm_clock_mhz:
        return None
    static_w = alone.idle.power_w
    joules = (kernel.power_w - static_w) * kernel.time_s
    joules *= factor(run.sm_clock_mhz, kernel.sm_clock_mhz)
    busy_s = kernel.time_s * kernel.sm_clock_mhz / run.sm_clock_mhz
    power_w = min(kernel.power_w, max(run.power_w, _LEAST_POWER * kernel.power_w))
    return max(0.0, joules / (power_w - static_w) - busy_s)
