"""Energy of one interval, how sure it is, where the number came from, and how many a mean needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean
from typing import Literal

from joulelab.core.statistics import mean_u, student_t
from joulelab.errors import ConfigError

EnergySource = Literal["counter", "curve", "samples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWindow:
    """Energy used by one device between two instants.

    Attributes:
        start_s: Start, in seconds on the device's monotonic clock.
        duration_s: Length of the interval, in seconds, > 0.
        energy_j: Energy over the interval, in joules, >= 0.
        energy_u_j: Standard uncertainty (k = 1) of ``energy_j`` from the reading alone,
            in joules, >= 0. The sensor's own calibration class (some 5 % between boards)
            is common to every window of a board and is *not* in it.
        source: ``"counter"`` for the edge-interpolated hardware energy counter, ``"curve"`` for
            power samples brought to the counter's level, ``"samples"`` for integrated power
            samples. Never mix them in one comparison.
        work: Units of work done in the interval, >= 0 (0 for an idle window).
    """

    start_s: float
    duration_s: float
    energy_j: float
    energy_u_j: float
    source: EnergySource
    work: float = 0.0

    def __post_init__(self) -> None:
        if not self.duration_s > 0:
            raise ConfigError(f"duration_s must be positive, got {self.duration_s}.")
        for name in ("energy_j", "energy_u_j", "work"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}.")

    @property
    def power_w(self) -> float:
        """Mean power over the interval, in watts."""
        return self.energy_j / self.duration_s

    @property
    def power_u_w(self) -> float:
        """Standard uncertainty of :attr:`power_w`."""
        return self.energy_u_j / self.duration_s


LEVEL = 0.95
_NORMAL_FACTOR = 1.96


def relative_half_width(windows: Sequence[EnergyWindow]) -> float:
    """Return the relative half-width of the 95 % confidence interval of energy per unit.

    The scatter between windows, at least one, by Student's t, or what the readings alone leave open
    if that is more; a single window has only the latter.
    """
    per_unit_j = [window.energy_j / window.work for window in windows]
    mean_j = fmean(per_unit_j)
    reading_u_j = sqrt(sum(window.energy_u_j**2 for window in windows))
    half_width_j = _NORMAL_FACTOR * reading_u_j / sum(window.work for window in windows)
    if len(windows) > 1:
        half_width_j = max(half_width_j, student_t(LEVEL, len(windows)) * mean_u(per_unit_j))
    return half_width_j / mean_j if mean_j > 0 else float("inf")


def more_windows(windows: Sequence[EnergyWindow], relative_ci: float) -> int:
    """Return how many more windows ``relative_ci`` is likely to need; 0 if it is reached.

    Never more than there are already, so that the guess is made anew as the scatter is known
    better.
    """
    missing = relative_half_width(windows) / relative_ci if relative_ci > 0 else float("inf")
    if missing <= 1:
        return 0
    wanted = ceil(len(windows) * min(missing, 2.0) ** 2)
    return min(max(1, wanted - len(windows)), len(windows))
