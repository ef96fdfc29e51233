"""How warm a board gets by its power, and how far from that a trial found it.

Power at one clock rises with temperature, because leakage does. Of the temperature of a trial, what
its own power explains is part of what the configuration costs: it will be as warm in use. The rest
is chance: a board that was cold still, or hotter air.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

POWER_PER_K: Final = 0.002
"""Relative growth of power by temperature. An A100 under load grew by 2.4 % while its die warmed by
some 9 K, boards of the catalogue by 0.05 to 0.1 % per kelvin."""
POWER_PER_K_SD: Final = 0.0015

_KELVIN_PER_W, _KELVIN_PER_W_SD, _TEMPERATURE_SD_C = 0.06, 0.03, 2.0
"""Of a board over its coolest state: what sinks of data-centre boards come to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmthLine:
    """Temperature by power, a line.

    Attributes:
        middle_w: Power about which it turns.
        middle_c: Temperature there.
        kelvin_per_w: Its slope.
        slope_sd: Standard deviation of the slope.
    """

    middle_w: float
    middle_c: float
    kelvin_per_w: float
    slope_sd: float

    def at(self, power_w: Array) -> tuple[Array, Array]:
        """Return temperatures in degrees Celsius at ``power_w``, and standard deviations."""
        away_w = power_w - self.middle_w
        deviation = np.hypot(away_w * self.slope_sd, _TEMPERATURE_SD_C)
        return self.middle_c + self.kelvin_per_w * away_w, np.asarray(deviation)


def warmth_line(power_w: Array, temperature_c: Array) -> WarmthLine | None:
    """Return the line through what was measured; ``None`` if no temperature was read.

    Args:
        power_w: Power of each trial.
        temperature_c: Its temperature; NaN where it was not read.
    """
    known = np.isfinite(temperature_c)
    if not known.any():
        return None
    middle_w, middle_c = power_w[known].mean(), temperature_c[known].mean()
    away_w, above_c = power_w[known] - middle_w, temperature_c[known] - middle_c
    precision = _KELVIN_PER_W_SD**-2 + np.sum(away_w**2) / _TEMPERATURE_SD_C**2
    pull = _KELVIN_PER_W / _KELVIN_PER_W_SD**2 + np.sum(away_w * above_c) / _TEMPERATURE_SD_C**2
    return WarmthLine(
        middle_w=float(middle_w),
        middle_c=float(middle_c),
        kelvin_per_w=float(pull / precision),
        slope_sd=float(precision**-0.5),
    )


def excess_k(power_w: Array, temperature_c: Array) -> Array:
    """Return by how much each trial was warmer than its power explains; 0 where it is unknown."""
    line = warmth_line(power_w, temperature_c)
    if line is None:
        return np.zeros_like(power_w)
    return np.nan_to_num(temperature_c - line.at(power_w)[0])
