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

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit  # type: ignore[import-untyped]

from joulelab.core import power_law

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Configurations as the law sees them."""

    cell: Index  # number of the cell; shape (n,)
    ratio: Array  # requested clock over the highest
    limit_w: Array  # power at which the clock falls; infinite where it never does
    asked_w: Array  # power limit that is asked for; infinite where none is
    place: Array  # where they are on the axes of the operating point, logarithms; shape (n, 2)
    board: Index  # number of the board; 0 is the one that others are compared with
    warmth_k: Array  # by how much the board was warmer than such a power makes it

    def at(self, places: Index) -> "Rows":
        """Return some of the rows."""
        return Rows(**{field.name: getattr(self, field.name)[places] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """Logarithms of time and power at some rows, and their uncertainties; shape ``(n, 2)``."""

    rows: Rows
    logs: Array
    u: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellBelief:
    """The parameters of a cell, and those of the board.

    ``likeliest`` has shape ``(13,)``; ``prior`` is their covariance before anything was measured,
    and ``covariance`` what is left of it, ``(13, 13)`` each. ``variance`` is that of a logarithm of
    time or power around the law.
    """

    likeliest: Array
    prior: Array
    covariance: Array
    measured: Rows
    variance: float


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
    parameters: Array,
    ratio: Array,
    limit_w: Array,
    asked_w: Array | None = None,
    held: Array | None = None,
) -> Array:
    """Return logarithms of time in seconds and power in watts; shape ``(n, 2)``.

    ``parameters`` are those of the cell, then those of the board, shape ``(n, 13)``; the others
    have shape ``(n,)``: ``ratio`` is the requested clock over the highest, ``limit_w`` the power at
    which the clock falls, infinite where it never does, ``asked_w`` the power limit that is asked
    for, infinite where none is and ``None`` for none at all, ``held`` the :func:`clock` where it is
    known.
    """
    held = clock(parameters, ratio, limit_w, asked_w) if held is None else held
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
    if len(over):
        at = _curves(parameters[over])
        found[over] = power_law.held_clock(
            lambda clock: at(clock)[1], most_w[over], LEAST_RATIO, ratio[over]
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
    return _curves(parameters)(ratio)


def _curves(parameters: Array) -> Callable[[Array], tuple[Array, Array]]:
    """Return :func:`share_and_power` of one set of parameters."""
    constant, knee, start, gain, bend, _ = np.exp(parameters[:, _OF_BOARD:]).T
    clocked, pipes, memory = np.exp(parameters[:, 3:PEAK]).T
    start = np.minimum(start, LATEST_RIDGE)
    relative_time = power_law.relative_times(parameters[:, 1:3], knee)

    def at(ratio: Array) -> tuple[Array, Array]:
        share = relative_time(ratio)
        above = power_law.height(ratio, start, 1.0 - start)
        squared = power_law.voltage(above**bend, gain) ** 2
        core = clocked * ratio + pipes / share
        return share, power_law.board_w(constant, squared, core, memory / share)

    return at


_WORKING, _MEMORY_TIME, _CLOCKED, _PIPES, _MEMORY = range(1, PEAK)
_CONSTANT, _KNEE, _RIDGE, _VOLTAGE, _BEND, _STEEPNESS = range(len(CELL_PARAMETERS), NUM_PARAMETERS)
_CLOCK = NUM_PARAMETERS
_LEAST = 1e-12


def slopes(
    parameters: Array, ratio: Array, limit_w: Array, asked_w: Array, held: Array | None = None
) -> Array:
    """Return the derivatives of :func:`log_time_power`, as that has it; shape ``(n, 2, 13)``.

    A clock that a limit holds moves so that power at it keeps to the limit.
    """
    held = clock(parameters, ratio, limit_w, asked_w) if held is None else held
    found = _at_clock(parameters, held)
    moving = np.flatnonzero((held < ratio) & (held > LEAST_RATIO))
    if len(moving):
        at = parameters[moving], ratio[moving], limit_w[moving], asked_w[moving]
        by_clock = found[moving, :, _CLOCK]
        moved = _of_limit(*at) - found[moving, 1, :_CLOCK]
        moved /= np.maximum(by_clock[:, 1:], _LEAST)
        found[moving, :, :_CLOCK] += by_clock[:, :, None] * moved[:, None, :]
    return found[:, :, :_CLOCK]


def _at_clock(parameters: Array, ratio: Array) -> Array:
    """Return the same at a clock that is held, and by the clock itself; shape ``(n, 2, 14)``."""
    share, by_share = _of_time(parameters, ratio)
    clocked, pipes, memory, constant = np.exp(parameters[:, [3, 4, 5, _CONSTANT]]).T
    volts, by_volts = _of_voltage(parameters, ratio)
    core = clocked * ratio + pipes / share
    found = np.zeros((2, _CLOCK + 1, len(ratio)))
    found[0] = by_share / share
    found[1] = by_share * -(volts**2 * pipes + memory) / share**2
    found[1] += 2.0 * volts * core * by_volts
    found[1, _CLOCKED] += volts**2 * clocked * ratio
    found[1, _PIPES] += volts**2 * pipes / share
    found[1, _MEMORY] += memory / share
    found[1, _CONSTANT] += constant
    found[1, _CLOCK] += volts**2 * clocked
    found[1] /= power_law.board_w(constant, volts**2, core, memory / share)
    found[0, 0] = 1.0
    return np.moveaxis(found, 2, 0)


def _of_time(parameters: Array, ratio: Array) -> tuple[Array, Array]:
    """Return time over that at the highest clock, and its derivatives; shape ``(14, n)``."""
    knee = np.exp(parameters[:, _KNEE])
    share = power_law.relative_time(ratio, parameters[:, [_WORKING, _MEMORY_TIME]], knee)
    working = 1.0 / (1.0 + np.exp(-parameters[:, _WORKING]))
    at_work = share - (1.0 - working)
    here, top = (_memory_bound(parameters, each, knee) for each in (ratio, np.ones_like(ratio)))
    starved, starved_top = here * (knee > ratio), top * (knee > 1.0)
    found = np.zeros((_CLOCK + 1, len(ratio)))
    found[_WORKING] = (1.0 - working) * (at_work - working)
    found[_MEMORY_TIME] = at_work * (here - top)
    found[_KNEE] = at_work * (starved - starved_top)
    found[_CLOCK] = at_work * (here - starved - 1.0) / ratio
    return share, found


def _memory_bound(parameters: Array, ratio: Array, knee: Array) -> Array:
    """Return by how much time at work follows that in the memory: 1 where nothing else counts."""
    memory = np.exp(np.clip(parameters[:, _MEMORY_TIME], -12.0, 6.0)) * power_law.starvation(
        ratio, knee
    )
    return np.asarray(1.0 / (1.0 + (ratio * memory) ** -4.0))


def _of_voltage(parameters: Array, ratio: Array) -> tuple[Array, Array]:
    """Return voltage over its least, and its derivatives; shape ``(14, n)``."""
    ridge, gain, bend = np.exp(parameters[:, [_RIDGE, _VOLTAGE, _BEND]]).T
    start = np.minimum(ridge, LATEST_RIDGE)
    above = power_law.height(ratio, start, 1.0 - start)
    near = np.maximum(above, _LEAST)
    lift = gain * above**bend
    by_height = lift * bend / near
    found = np.zeros((_CLOCK + 1, len(ratio)))
    found[_RIDGE] = by_height * (ratio - 1.0) / (1.0 - start) ** 2 * start * (ridge < LATEST_RIDGE)
    found[_VOLTAGE] = lift
    found[_BEND] = lift * bend * np.log(near)
    found[_CLOCK] = by_height / (1.0 - start)
    return 1.0 + lift, found


def _of_limit(parameters: Array, ratio: Array, limit_w: Array, asked_w: Array) -> Array:
    """Return derivatives of the logarithm of what may be drawn; shape ``(n, 13)``."""
    found = np.zeros((len(ratio), NUM_PARAMETERS))
    power_w = share_and_power(parameters, ratio)[1]
    acts = np.flatnonzero(softened_w(parameters, power_w, limit_w, asked_w) < limit_w)
    steepness = np.exp(parameters[acts, _STEEPNESS])
    sharp = np.maximum(steepness, LEAST_STEEPNESS)
    over = sharp * (parameters[acts, PEAK] + np.log(power_w[acts] / asked_w[acts]))
    held = expit(over)
    found[acts] = (1.0 - held)[:, None] * _at_clock(parameters[acts], ratio[acts])[:, 1, :_CLOCK]
    found[acts, PEAK] = -held
    bent = (np.logaddexp(0.0, over) - held * over) / sharp
    found[acts, _STEEPNESS] = bent * (steepness > LEAST_STEEPNESS)
    return found
