"""Checks of what tests are given; each error names the value and where it is."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError, MeasurementError

Array = NDArray[np.float64]


def positive(name: str, values: Sequence[float] | Array, *, least: int) -> Array:
    """Return ``values`` as an array of at least ``least`` positive, finite numbers.

    Raises:
        MeasurementError: If one is not, or there are fewer.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) < least:
        raise MeasurementError(
            f"{name} must hold at least {least} values in one row, got shape {numbers.shape}; "
            "repeat the measurement."
        )
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
    if len(bad):
        raise MeasurementError(
            f"{name} must be positive and finite, got {numbers[bad[0]]} at position {bad[0]}; "
            "leave out failed measurements, with their partners."
        )
    return numbers


def log_ratios(
    treated: Sequence[float] | Array, reference: Sequence[float] | Array, *, least: int = 2
) -> Array:
    """Return ``ln(treated / reference)`` of each pair, shape ``(n,)``.

    Raises:
        ConfigError: If the two are not of one length.
        MeasurementError: If there are fewer than ``least`` pairs, or one is not positive.
    """
    above, below = (
        positive(name, values, least=least)
        for name, values in (("treated", treated), ("reference", reference))
    )
    if len(above) != len(below):
        raise ConfigError(
            f"treated and reference must come in pairs, got {len(above)} and {len(below)} values."
        )
    return np.asarray(np.log(above / below))


def check_scatter(values: Array) -> None:
    """Check that values are not all the same, as copies of one measurement are.

    Raises:
        MeasurementError: If they are: nothing says how uncertain they would be.
    """
    if np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())):
        raise MeasurementError(
            f"Repeats must scatter to be tested, got {len(values)} pairs of one and the same "
            "ratio; are they copies of one measurement?"
        )


def check_share(name: str, value: float) -> None:
    """Check that ``value`` is between 0 and 1, both excluded.

    Raises:
        ConfigError: If it is not.
    """
    if not 0.0 < value < 1.0:
        raise ConfigError(f"{name} must be between 0 and 1, got {value}.")
