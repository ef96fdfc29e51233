"""Derivatives of the law of :mod:`law` by its parameters, in closed form."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit  # type: ignore[import-untyped]

from joulelab.core import power_law
from joulelab.searching.model.law import (
    CELL_PARAMETERS,
    LATEST_RIDGE,
    LEAST_RATIO,
    LEAST_STEEPNESS,
    NUM_PARAMETERS,
    PEAK,
    clock,
    share_and_power,
    softened_w,
)

Array = NDArray[np.float64]

_WORKING, _MEMORY_TIME, _CLOCKED, _PIPES, _MEMORY = range(1, PEAK)
_CONSTANT, _KNEE, _RIDGE, _VOLTAGE, _BEND, _STEEPNESS = range(len(CELL_PARAMETERS), NUM_PARAMETERS)
_CLOCK = NUM_PARAMETERS
_LEAST = 1e-12


def slopes(parameters: Array, ratio: Array, limit_w: Array, asked_w: Array) -> Array:
    """Return the derivatives of :func:`law.log_time_power`; shape ``(n, 2, 13)``.

    A clock that a limit holds moves so that power at it keeps to the limit.
    """
    held = clock(parameters, ratio, limit_w, asked_w)
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
