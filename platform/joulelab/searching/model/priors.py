"""What is known of a GPU and of its workloads before anything is measured."""

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from joulelab.hardware.spec import GpuSpec

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPrior:
    """What is expected of the parameters of a board; all are logarithms.

    Attributes:
        mean: Expectation of constant power, knee, ridge, voltage, bend and
            steepness (see :mod:`law`).
        sd: Standard deviations.
        is_absolute: Whether constant power is in watts, rather than over the first measurement.
    """

    mean: tuple[float, float, float, float, float, float]
    sd: tuple[float, float, float, float, float, float]
    is_absolute: bool


_LOG_STEEPNESS, _LOG_STEEPNESS_SD = log(8.0), 0.6
"""Of how a power limit acts; training on a V100 and an RTX 6000 shows 5 to 8."""

ANY_BOARD = BoardPrior(
    mean=(log(0.35), log(0.6), log(0.68), log(0.35), log(1.1), _LOG_STEEPNESS),
    sd=(0.4, 0.25, 0.12, 0.35, 0.25, _LOG_STEEPNESS_SD),
    is_absolute=False,
)
"""What the catalogue's GPUs scatter about."""

_KNOWN_SD = (0.2, 0.15, 0.08, 0.2, 0.15, _LOG_STEEPNESS_SD)
"""By how much a board may differ from what the catalogue says of its kind; estimates."""
_LATEST_RIDGE, _LEAST_GAIN, _LEAST_BEND = 0.97, 0.02, 0.3

BOUND = (2.0, -4.0)
"""Expected log-odds of the share of time in which the device works, estimates: where the device
bounds, and where the host does. Time that no clock changes looks alike where memory bounds, until
the clock falls below the memory's knee."""


def board_prior(spec: GpuSpec | None, top_mhz: int) -> BoardPrior:
    """Return what the catalogue says of a GPU, or what is common to all where it lacks it.

    Args:
        spec: The GPU; ``None`` if the catalogue lacks it.
        top_mhz: Clock that others are compared with.
    """
    if spec is None:
        return ANY_BOARD
    ridge_mhz = min(spec.voltage.ridge_mhz, _LATEST_RIDGE * top_mhz)
    gain = max(spec.voltage.at(top_mhz) - 1.0, _LEAST_GAIN)
    half = max(spec.voltage.at((ridge_mhz + top_mhz) / 2) - 1.0, _LEAST_GAIN / 4)
    return BoardPrior(
        mean=(
            log(spec.power.constant_w),
            log(spec.timing.memory_knee_mhz / top_mhz),
            log(ridge_mhz / top_mhz),
            log(gain),
            log(max(log(gain / half, 2), _LEAST_BEND)),
            _LOG_STEEPNESS,
        ),
        sd=_KNOWN_SD,
        is_absolute=True,
    )
