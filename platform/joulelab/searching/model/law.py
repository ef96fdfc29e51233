"""The law by which time and power of one cell follow the clock: core/power_law.py, in logs.

A few trials cannot tell two coefficients of the voltage apart, and logs keep all positive: so the
curve has one exponent in place of the catalogue's quadratic.

With ``x`` the clock over the highest one, ``v`` the voltage over its least and ``r`` the rate of
work over that at ``x = 1``,

    T = T1 ((1 - h) + h R(x) / R(1)),      R = ((1 / x)^4 + (mu max(1, k / x))^4)^(1/4)
    P = P0 + C x v^2 + (D v^2 + M) r,      v = 1 + g (max(0, x - x0) / (1 - x0))^p

Where that is more than the board may draw, the clock falls until it is not. A limit that is asked
for acts before the mean power reaches it: parts of a step draw more than its mean, so that power is

    P' = (P^-s + (L / q)^-s)^(-1/s)

under the limit ``L``, with ``q`` the power of those parts over the mean. Constant power, the
voltage curve, the memory's knee and ``s`` belong to the board; the rest is the cell's.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from joulelab.core import power_law

Array = NDArray[np.float64]

CELL_PARAMETERS: Final = ("time", "working", "memory_time", "clocked", "pipes", "memory", "peak")
"""Logs of T1, the odds of h, mu, C, D, M and q."""
BOARD_PARAMETERS: Final = ("constant", "knee", "ridge", "voltage", "bend", "steepness")
"""Logs of P0, k, x0, g, p and s."""
NUM_PARAMETERS: Final = len(CELL_PARAMETERS) + len(BOARD_PARAMETERS)

PEAK, _OF_BOARD = CELL_PARAMETERS.index("peak"), len(CELL_PARAMETERS)
LEAST_RATIO: Final = 0.05
LATEST_RIDGE: Final = 0.98
LEAST_STEEPNESS: Final = 1.0
"""Far softer than any limit acts; on the way there a step can lead beyond."""


def log_time_power(
    parameters: Array, ratio: Array, limit_w: Array, asked_w: Array | None = None
) -> Array:
    """Return logarithms of time in seconds and power in watts.

    Args:
        parameters: Those of the cell, then those of the board; shape ``(n, 13)``.
        ratio: Requested clock over the highest; shape ``(n,)``.
        limit_w: Power at which the clock falls, infinite where it never does; shape ``(n,)``.
        asked_w: Power limit that is asked for, infinite where none is; ``None`` for none at all.

    Returns:
        Shape ``(n, 2)``.
    """
    held = clock(parameters, ratio, limit_w, asked_w)
    share, power_w = share_and_power(parameters, held)
    return np.column_stack([parameters[:, 0] + np.log(share), np.log(power_w)])


def clock(parameters: Array, ratio: Array, limit_w: Array, asked_w: Array | None) -> Array:
    """Return the clock at which each row runs, over the highest; as :func:`log_time_power`."""
    if np.isinf(limit_w).all() and (asked_w is None or np.isinf(asked_w).all()):
        return ratio
    power_w, most_w = share_and_power(parameters, ratio)[1], limit_w
    if asked_w is not None:
        most_w = softened_w(parameters, power_w, limit_w, asked_w)
    found, over = ratio.copy(), np.flatnonzero(power_w > most_w)
    found[over] = power_law.held_clock(
        lambda clock: share_and_power(parameters[over], clock)[1],
        most_w[over],
        LEAST_RATIO,
        ratio[over],
    )
    return found


def softened_w(parameters: Array, power_w: Array, limit_w: Array, asked_w: Array) -> Array:
    """Return the most that may be drawn, by the mean over a step."""
    most_w, asked = limit_w.copy(), np.flatnonzero(np.isfinite(asked_w))
    steepness = np.maximum(np.exp(parameters[asked, -1]), LEAST_STEEPNESS)
    peak = np.exp(parameters[asked, PEAK])
    over = steepness * np.log(power_w[asked] * peak / asked_w[asked])
    soft_w = power_w[asked] * np.exp(-np.logaddexp(0.0, over) / steepness)
    most_w[asked] = np.minimum(most_w[asked], soft_w)
    return np.asarray(most_w)


def share_and_power(parameters: Array, ratio: Array) -> tuple[Array, Array]:
    """Return time over that at the highest clock, and power in watts, at a clock that is held."""
    constant, knee, start, gain, bend, _ = np.exp(parameters[:, _OF_BOARD:]).T
    share = power_law.relative_time(ratio, parameters[:, 1:3], knee)
    clocked, pipes, memory = np.exp(parameters[:, 3:PEAK]).T
    start = np.minimum(start, LATEST_RIDGE)
    above = power_law.height(ratio, start, 1.0 - start)
    squared = power_law.voltage(above**bend, gain) ** 2
    core = clocked * ratio + pipes / share
    return share, power_law.board_w(constant, squared, core, memory / share)
