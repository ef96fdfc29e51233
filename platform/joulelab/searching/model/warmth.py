"""How warm a board gets by its power, and how far from that a trial found it.

Power at one clock rises with temperature, because leakage does. Of the temperature of a trial, what
its own power explains is part of what the configuration costs: it will be as warm in use. The rest
is chance: a board that was cold still, or hotter air.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_KELVIN_PER_W, _KELVIN_PER_W_SD, _TEMPERATURE_SD_C = 0.06, 0.03, 2.0
"""Of a board over its coolest state: what sinks of data-centre boards come to."""
_SD_WORTH, _LEAST_SD_C = 2.0, 0.3
"""How many readings that scatter is worth, and the least it can be: whole degrees are read."""
_NUM_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmthLine:
    """Temperature by power: a line about the point in the middle.

    ``scatter_c`` is the standard deviation of temperatures around it.
    """

    middle_w: float
    middle_c: float
    kelvin_per_w: float
    slope_sd: float
    middle_sd_c: float
    scatter_c: float

    def at(self, power_w: Array) -> tuple[Array, Array]:
        """Return temperatures in degrees Celsius at ``power_w``, and standard deviations."""
        away_w = power_w - self.middle_w
        around = np.hypot(self.middle_sd_c, self.scatter_c)
        return self.middle_c + self.kelvin_per_w * away_w, np.hypot(away_w * self.slope_sd, around)


def warmth_line(power_w: Array, temperature_c: Array) -> WarmthLine | None:
    """Return the line through trials, whose temperature is NaN where it was not read.

    ``None`` if none was.
    """
    known = np.isfinite(temperature_c)
    if not known.any():
        return None
    middle_w, middle_c = power_w[known].mean(), temperature_c[known].mean()
    away_w, above_c = power_w[known] - middle_w, temperature_c[known] - middle_c
    scatter_c = _TEMPERATURE_SD_C
    for _ in range(_NUM_ROUNDS):
        slope, slope_sd = _slope(away_w, above_c, scatter_c)
        scatter_c = _scatter_c(above_c - slope * away_w)
    return WarmthLine(
        middle_w=float(middle_w),
        middle_c=float(middle_c),
        kelvin_per_w=slope,
        slope_sd=slope_sd,
        middle_sd_c=scatter_c / np.sqrt(len(above_c)),
        scatter_c=scatter_c,
    )


def _slope(away_w: Array, above_c: Array, scatter_c: float) -> tuple[float, float]:
    """Return the slope of a line through the middle, and its standard deviation."""
    precision = _KELVIN_PER_W_SD**-2 + np.sum(away_w**2) / scatter_c**2
    pull = _KELVIN_PER_W / _KELVIN_PER_W_SD**2 + np.sum(away_w * above_c) / scatter_c**2
    return float(pull / precision), float(precision**-0.5)


def _scatter_c(missed_c: Array) -> float:
    """Return by how much temperatures scatter, of what a line with two parameters misses."""
    shown = np.sum(missed_c**2) + _SD_WORTH * _TEMPERATURE_SD_C**2
    dof = _SD_WORTH + max(len(missed_c) - 2, 0)
    return max(float(np.sqrt(shown / dof)), _LEAST_SD_C)


def excess_k(power_w: Array, temperature_c: Array) -> Array:
    """Return by how much each trial was warmer than its power explains; 0 where it is unknown."""
    line = warmth_line(power_w, temperature_c)
    if line is None:
        return np.zeros_like(power_w)
    return np.nan_to_num(temperature_c - line.at(power_w)[0])
