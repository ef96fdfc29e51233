"""The law by which time and power of one cell follow the clock.

With ``x`` the clock over the highest one, ``v`` the voltage over its least and ``r`` the rate of
work over that at ``x = 1``,

    T = T1 ((1 - h) + h R(x) / R(1)),      R = ((1 / x)^4 + (mu max(1, k / x))^4)^(1/4)
    P = P0 + C x v^2 + (D v^2 + M) r,      v = 1 + g (max(0, x - x0) / (1 - x0))^p

Where that is more than the board may draw, the clock falls until it is not. Constant power, the
voltage curve and the memory's knee belong to the board; the rest is the cell's.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from joulelab.power_models.members.physics_time import relative_time

Array = NDArray[np.float64]

CELL_PARAMETERS: Final = ("time", "working", "memory_time", "clocked", "pipes", "memory")
"""Logs of T1, the odds of h, mu, C, D and M."""
BOARD_PARAMETERS: Final = ("constant", "knee", "ridge", "voltage", "bend")
"""Logs of P0, k, x0, g and p."""
NUM_PARAMETERS: Final = len(CELL_PARAMETERS) + len(BOARD_PARAMETERS)

_STEP = 1e-5
_LEAST_RATIO = 0.05
_LATEST_RIDGE = 0.98
_PARTS, _CUTS = 4, 6
"""Into how many parts a range of clocks is cut, and how often, until power is a line within one."""
_LEAST_W = 1e-12


def log_time_power(parameters: Array, ratio: Array, limit_w: Array) -> Array:
    """Return logarithms of time in seconds and power in watts.

    Args:
        parameters: Those of the cell, then those of the board; shape ``(n, 11)``.
        ratio: Requested clock over the highest; shape ``(n,)``.
        limit_w: Power at which the clock falls, infinite where it never does; shape ``(n,)``.

    Returns:
        Shape ``(n, 2)``.
    """
    share, power_w = _share_and_power(parameters, ratio)
    over = np.flatnonzero(power_w > limit_w)
    if len(over):
        held = _held(parameters[over], ratio[over], limit_w[over])
        share[over], power_w[over] = _share_and_power(parameters[over], held)
    return np.column_stack([parameters[:, 0] + np.log(share), np.log(power_w)])


def slopes(parameters: Array, ratio: Array, limit_w: Array) -> Array:
    """Return the derivatives of :func:`log_time_power`; shape ``(n, 2, 11)``."""
    n = len(parameters)
    steps = _STEP * np.concatenate([np.eye(NUM_PARAMETERS), -np.eye(NUM_PARAMETERS)])
    moved = (parameters + steps[:, None, :]).reshape(-1, NUM_PARAMETERS)
    times = len(steps)
    logs = log_time_power(moved, np.tile(ratio, times), np.tile(limit_w, times))
    up, down = logs.reshape(2, NUM_PARAMETERS, n, 2)
    return np.asarray(((up - down) / (2 * _STEP)).transpose(1, 2, 0))


def _held(parameters: Array, ratio: Array, limit_w: Array) -> Array:
    """Return the highest clock ratio at which power is within the limit; it grows with the clock.

    Few calls with many clocks each, since most of a call with few rows is not arithmetic.
    """
    rows, steps = np.arange(len(ratio)), np.linspace(0.0, 1.0, _PARTS + 1)
    low, high = np.full_like(ratio, _LEAST_RATIO), ratio
    repeated = np.repeat(parameters, len(steps), axis=0)
    for _ in range(_CUTS):
        tried = low[:, None] + (high - low)[:, None] * steps
        power_w = _share_and_power(repeated, tried.ravel())[1].reshape(tried.shape)
        over = np.clip(np.sum(power_w <= limit_w[:, None], axis=1), 1, _PARTS)
        low, high = tried[rows, over - 1], tried[rows, over]
    low_w, high_w = power_w[rows, over - 1], power_w[rows, over]
    share = (limit_w - low_w) / np.maximum(high_w - low_w, _LEAST_W)
    return np.asarray(low + (high - low) * np.clip(share, 0.0, 1.0))


def _share_and_power(parameters: Array, ratio: Array) -> tuple[Array, Array]:
    """Return time over that at the highest clock, and power in watts, at a clock that is held."""
    share = relative_time(ratio, parameters[:, 1:3], np.exp(parameters[:, 7]))
    clocked, pipes, memory, constant = np.exp(parameters[:, 3:7]).T
    start, gain, bend = np.exp(parameters[:, 8:11]).T
    start = np.minimum(start, _LATEST_RIDGE)
    above = np.maximum(ratio - start, 0.0) / (1.0 - start)
    squared = (1.0 + gain * above**bend) ** 2
    power_w = constant + clocked * ratio * squared + (pipes * squared + memory) / share
    return share, power_w
