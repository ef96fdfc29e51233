"""Energy of one interval, how sure it is, and where the number came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
        start_u_j: What of ``energy_u_j`` the reading at the start leaves open; the rest is the
            stop's. ``None`` where it does not lie in the edges, or is not known.
    """

    start_s: float
    duration_s: float
    energy_j: float
    energy_u_j: float
    source: EnergySource
    work: float = 0.0
    start_u_j: float | None = None

    def __post_init__(self) -> None:
        if not self.duration_s > 0:
            raise ConfigError(f"duration_s must be positive, got {self.duration_s}.")
        for name in ("energy_j", "energy_u_j", "work"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}.")
        if self.start_u_j is not None and not 0 <= self.start_u_j <= self.energy_u_j:
            raise ConfigError(
                f"start_u_j must be from 0 to energy_u_j={self.energy_u_j}, got {self.start_u_j}."
            )

    @property
    def stop_s(self) -> float:
        """Stop, in seconds on the device's monotonic clock."""
        return self.start_s + self.duration_s

    @property
    def power_w(self) -> float:
        """Mean power over the interval, in watts."""
        return self.energy_j / self.duration_s

    @property
    def power_u_w(self) -> float:
        """Standard uncertainty of :attr:`power_w`."""
        return self.energy_u_j / self.duration_s


SAME_EDGE_S = 1e-6
"""Two windows adjoin if one stops as the other starts, but for rounding."""


def total_u_j(windows: Sequence[EnergyWindow]) -> float:
    """Return the standard uncertainty of what windows, in order, used together, in joules.

    The reading at an edge between two that adjoin is added to one and taken from the other, so
    that it falls out of their sum. Other readings are independent.
    """
    variance_j2 = sum(window.energy_u_j**2 for window in windows)
    for earlier, later in pairwise(windows):
        adjoin = abs(later.start_s - earlier.stop_s) <= SAME_EDGE_S
        if adjoin and earlier.start_u_j is not None and later.start_u_j is not None:
            stop_u_j = sqrt(earlier.energy_u_j**2 - earlier.start_u_j**2)
            variance_j2 -= 2 * stop_u_j * later.start_u_j
    return sqrt(max(0.0, variance_j2))


LEVEL = 0.95
_NORMAL_FACTOR = 1.96
_SURE_SHARE = 0.36
"""Of the variance that readings state they are sure to have so much: on recordings of H200s they
err by 0.6 to 1.3 times what they state, in the root mean square."""


def relative_half_width(windows: Sequence[EnergyWindow]) -> float:
    """Return the relative half-width of the 95 % confidence interval of energy per unit.

    The scatter between windows, at least one, by Student's t, or what the readings alone leave open
    if that is more; a single window has only the latter.
    """
    per_unit_j = [window.energy_j / window.work for window in windows]
    mean_j = fmean(per_unit_j)
    reading_u_j, scatter_u_j = mean_u_j(windows, per_unit_j)
    half_width_j = _NORMAL_FACTOR * reading_u_j
    if len(windows) > 1:
        half_width_j = max(half_width_j, student_t(LEVEL, len(windows)) * scatter_u_j)
    return half_width_j / mean_j if mean_j > 0 else float("inf")


def mean_u_j(windows: Sequence[EnergyWindow], per_unit_j: Sequence[float]) -> tuple[float, float]:
    """Return the standard uncertainty of mean energy per unit by the readings, and by the scatter.

    The scatter is that of ``per_unit_j``, the energy per unit of each window, without what readings
    at edges between adjoining windows add to it, which falls out of the mean; 0 for one window.
    """
    work = sum(window.work for window in windows)
    total_j2 = total_u_j(windows) ** 2
    lost_j2 = sum(window.energy_u_j**2 for window in windows) - total_j2
    scatter_j2 = mean_u(per_unit_j) ** 2 - _SURE_SHARE * lost_j2 / work**2
    return sqrt(total_j2) / work, sqrt(max(0.0, scatter_j2))


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
