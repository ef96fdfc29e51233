"""Energy of one interval, how sure it is, and where the number came from."""

from dataclasses import dataclass
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
