"""The law of power and time over clocks, by which GPUs are simulated, estimated, learned, searched.

With the core clock ``f``, the voltage ``v`` over its least, and operations and bytes at a rate,

    P = constant + v^2 (f clocked + operations + bytes on the die) + bytes of the memory
    v = 1 + a h + b h^2,   h = how far f is above the ridge
    R = ((time in the core)^4 + (time in the memory max(1, knee / f))^4)^(1/4)

Under a power limit the highest clock is held at which P is within :data:`CAP_SHARE` of it. The form
of P fits the public clock sweeps of V100, A100 and A40 to 1 %. What differs between the users are
parameters: the catalogue's in MHz and W, or logs that are fitted, over a clock of reference. How
hosts and kernels behave on simulated and estimated devices follows the law.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_Number = TypeVar("_Number", float, NDArray[np.float64])

CAP_SHARE = 0.99
"""Share of the power limit that is used where it binds: it behaves as the largest clock with P(f)
at or below the limit less 1 to 2 % (A100 at 150 to 275 W, H200 at 700 W)."""
_CUTS = 30
_FOUND = 1e-9  # of a logarithm of power: steps of derivatives are followed by themselves
_LEAST_LOG = 1e-12


def height(clock: _Number, ridge: float | Array, span: float | Array) -> _Number:
    """Return how far a clock is above the ridge, over ``span``; 0 below it."""
    above: _Number = clock - ridge  # type: ignore[assignment]
    return (above + abs(above)) / (2.0 * span)  # type: ignore[return-value]


def voltage(height: _Number, linear: float | Array, quadratic: float | Array = 0.0) -> _Number:
    """Return voltage over its least at a height above the ridge; 1 below it.

    Leakage that grows with voltage is folded in, so it is an effective curve.
    """
    return 1.0 + linear * height + quadratic * height**2  # type: ignore[return-value]


def board_w(
    constant_w: float | Array,
    squared_voltage: _Number,
    core_w: float | Array,
    memory_w: float | Array = 0.0,
) -> _Number:
    """Return board power.

    Args:
        constant_w: What no clock changes.
        squared_voltage: Voltage over its least, squared.
        core_w: Of clocked parts, operations and bytes on the die, at the least voltage.
        memory_w: Of bytes of the memory.
    """
    return constant_w + squared_voltage * core_w + memory_w  # type: ignore[return-value]


def roofline_s(core_s: _Number, memory_s: _Number) -> _Number:
    """Return the time of work that needs ``core_s`` of the units and ``memory_s`` of the memory.

    The fourth-power mean fits 33 workloads over 13 clocks with 0.7 % error, where a plain
    maximum is too sharp and a sum too slow. Works on numbers and on arrays alike.
    """
    total: _Number = (((core_s**2) ** 2 + (memory_s**2) ** 2) ** 0.5) ** 0.5
    return total


def starvation(clock: float | Array, knee: float | Array) -> Array:
    """Return by how much memory is slower below the clock that keeps it fed, the knee."""
    return np.asarray(np.maximum(1.0, knee / clock))


def roofline(ratio: float | Array, memory: Array, knee: float | Array) -> Array:
    """Return time at clocks over one of reference, in units of the time in the core there.

    Args:
        ratio: The clocks over that of reference, as the knee.
        memory: Time in the memory over time in the core, above the knee.
        knee: Clock below which memory is starved.
    """
    return roofline_s(1.0 / np.asarray(ratio), memory * starvation(ratio, knee))


def relative_time(ratio: Array, parameters: Array, knee: Array) -> Array:
    """Return time over that at the clock of reference, the host's part included.

    Args:
        ratio: The clocks over that of reference; shape ``(n,)``.
        parameters: Log-odds of the share of the time that the device works, and log of time in
            the memory over time in the core; shape ``(n, 2)``.
        knee: Clock below which memory is starved, over that of reference.
    """
    return relative_times(parameters, knee)(ratio)


def relative_times(parameters: Array, knee: Array) -> Callable[[Array], Array]:
    """Return :func:`relative_time` of some parameters, for clock after clock."""
    working = 1.0 / (1.0 + np.exp(-np.clip(parameters[:, 0], -30.0, 30.0)))
    memory = np.exp(np.clip(parameters[:, 1], -12.0, 6.0))
    of_work = working / roofline(1.0, memory, knee)
    return lambda ratio: 1.0 - working + of_work * roofline(ratio, memory, knee)


def held_clock(
    power_w: Callable[[Array], Array], limit_w: Array, lowest: float, highest: Array
) -> Array:
    """Return the highest clocks at which power is within its limit, ``lowest`` where none is.

    By false position, with the end that stays halved (Illinois), on logarithms of power.

    Args:
        power_w: Power at clocks, shape ``(n,)`` each; it grows with the clock.
        limit_w: What is within the limit; met to a billionth.
        lowest: The least clock.
        highest: Clocks at which power exceeds the limit.
    """
    low, high = np.full_like(highest, lowest), highest
    under, over = (np.log(power_w(end) / limit_w) for end in (low, high))
    is_above, was_up = under >= 0.0, np.zeros(len(highest), dtype=bool)
    for number in range(_CUTS):
        span = np.maximum(over - under, _LEAST_LOG)
        tried = np.clip(low + (high - low) * -under / span, low, high)
        missed = np.log(power_w(tried) / limit_w)
        up = missed > 0.0
        stays = (up == was_up) & (number > 0)
        low, high = np.where(up, low, tried), np.where(up, tried, high)
        under, over = (
            np.where(up, np.where(stays, under / 2.0, under), missed),
            np.where(up, missed, np.where(stays, over / 2.0, over)),
        )
        was_up = up
        if np.abs(missed[~is_above]).max(initial=0.0) < _FOUND:
            break
    return np.asarray(np.where(is_above, lowest, tried))


OVERHEAD_SHARE = 0.35
"""Share of the units that is busy while a kernel fills and drains the device (H200 GEMM 1024:
29 % active where 18 % computes)."""

HOST_CALL_SHARE = 0.03
"""Time of a call in Python over that of launching a kernel from Python: small Llama, BERT and Bloom
networks take 0.4 to 0.5 us for each of their calls on a core of an AMD EPYC besides what their
operators take, and a launch takes 15.2 us on the host of the H200's micro-benchmarks. Another host
than that; the share is good to about a third."""

LOOP_LAUNCH_SHARE = 0.71
"""Time of launching one and the same kernel again and again over that of launching it among others,
where Python lies in between: single operators and chains of modules on the host of the H200's
micro-benchmarks (experiments/results/h200_anchors)."""

SCALED_PRODUCT_LAUNCHES = 1.75
"""Launches of a product that one of fp8 takes: cuBLASLt is asked for its best kernel each time.

H200, n = 1024, one after the other: 20.7 us against 10.4 us in bf16, where a product takes 11.8 us
on average over how it is called."""

EAGER_GAP_S = 1.0e-6
"""Time between kernels that a full queue hands over, beyond that between kernels of a graph (H200,
fp32 GEMM 1024: 56.4 us in a queue, 55.4 us in a graph)."""

STEP_S = 4e-7
"""Time of a step of a sum whose threads wait for each load: some 600 cycles until the memory
answers, and the update of a mean and a variance. Estimated; an H200 decodes an image of Stable
Diffusion in bf16 in 22 ms at 390 W, of which 28 000 such steps take a half."""

PLAIN_CONVOLUTION_SHARE = 0.76
"""Rate of convolutions on plain units over that on matrix units, each over that of a product: fp32
without TF32 on an H200, ResNet-50 at batch 64."""
