"""The clocks at which power limits held runs whose clock under load was not read.

A power limit acts through the clock: a run that it held is one at a lower clock than was asked for.
Which one follows from what the application draws at other clocks, and is otherwise as usual.
"""

import numpy as np

from joulelab.core.power_law import CAP_SHARE, board_w
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.runs import NEAR_CAP, Array, Flags, Runs

Pair = tuple[str, str]
"""GPU label and application."""
_USUAL_EXCESS = 0.07
"""How far above its limit a run there would be without it, as a share of what the hungriest load
is: the median of applications that the limit of 700 W held, at clocks that were read, is 0.09 on
an H100 (26) and 0.05 on an H200 (95)."""


def held_without_clock(runs: Runs) -> Flags:
    """Return which runs a power limit held at a clock that was not read; shape ``(n,)``.

    A board one of whose runs exceeds the limit has another one.
    """
    share = runs.over_limit
    held = (share >= 1.0 - NEAR_CAP) & np.isnan(runs.observed_sm_clock_mhz)
    for gpu in runs.boards:
        own = runs.gpu == gpu
        held[own] &= share[own].max() <= 1.0 + NEAR_CAP
    return held


def usual_held_mhz(spec: GpuSpec, asked_mhz: float, limit_w: float) -> float:
    """Return the clock at which a power limit usually holds runs that were asked for another."""
    constant_w = spec.power.constant_w
    clocks_mhz = np.array(sorted({*(c for c in spec.sm_clocks_mhz if c < asked_mhz), asked_mhz}))
    peak_w = _peak_w(spec, clocks_mhz)
    if peak_w[-1] <= limit_w:
        return asked_mhz
    wanted_w = limit_w + _USUAL_EXCESS * (peak_w[-1] - limit_w)
    share = (wanted_w - constant_w) / (peak_w[-1] - constant_w)
    fits = constant_w + share * (peak_w - constant_w) <= CAP_SHARE * limit_w
    return float(clocks_mhz[fits].max(initial=clocks_mhz[0]))


def _peak_w(spec: GpuSpec, clocks_mhz: Array) -> Array:
    """Return board power with its hungriest unit and its memory at peak."""
    power, voltage = spec.power, np.array([spec.voltage.at(mhz) for mhz in clocks_mhz])
    of_clock = power.clock_tree_w_per_ghz + power.sm_w_per_ghz + max(power.pipe_w_per_ghz.values())
    core_w = power.leakage_w + of_clock * clocks_mhz / 1e3
    memory_w = power.dram_j_per_b * spec.memory_bandwidth_b_per_s
    return board_w(power.constant_w, voltage**2, core_w, memory_w)
