"""Energy of one interval, how sure it is, and where the number came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Literal

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
