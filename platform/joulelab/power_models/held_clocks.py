"""The clock at which a board's limit held a run that was asked for a higher one."""

import numpy as np

from joulelab.core.power_law import CAP_SHARE, board_w
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.runs import NEAR_CAP, Array


def likely_held_mhz(spec: GpuSpec, asked_mhz: float, power_w: float) -> float:
    """Return the clock of a run that drew ``power_w`` at a requested clock; that one if below.

    A run at the default limit would draw without it at least that, and at most what the catalogue
    says of its hungriest unit and its memory at peak; the middle is taken. It gives 1425 MHz on an
    H200, where GEMMs that the limit holds run at 1425, 1538 and 1725.
    """
    limit_w, constant_w = spec.default_power_limit_w, spec.power.constant_w
    clocks_mhz = np.array(sorted({*(c for c in spec.sm_clocks_mhz if c < asked_mhz), asked_mhz}))
    peak_w = _peak_w(spec, clocks_mhz)
    if abs(power_w / limit_w - 1.0) > NEAR_CAP or peak_w[-1] <= limit_w:
        return asked_mhz
    share = ((limit_w + peak_w[-1]) / 2.0 - constant_w) / (peak_w[-1] - constant_w)
    held = constant_w + share * (peak_w - constant_w) <= CAP_SHARE * limit_w
    return float(clocks_mhz[held].max(initial=clocks_mhz[0]))


def _peak_w(spec: GpuSpec, clocks_mhz: Array) -> Array:
    """Return board power with its hungriest unit and its memory at peak."""
    power, voltage = spec.power, np.array([spec.voltage.at(mhz) for mhz in clocks_mhz])
    of_clock = power.clock_tree_w_per_ghz + power.sm_w_per_ghz + max(power.pipe_w_per_ghz.values())
    core_w = power.leakage_w + of_clock * clocks_mhz / 1e3
    memory_w = power.dram_j_per_b * spec.memory_bandwidth_b_per_s
    return board_w(power.constant_w, voltage**2, core_w, memory_w)
