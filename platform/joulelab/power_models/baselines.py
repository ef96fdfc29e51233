"""Choices of a clock that need no model; every comparison holds them."""

import numpy as np

from joulelab.power_models.decision import Goal, Sweep, best_fixed_clock_mhz
from joulelab.power_models.runs import Runs

_SMOOTH_DEGREE = 3


def measured_sweep(runs: Runs) -> Sweep:
    """Return the rows of one application on one GPU as a sweep."""
    return Sweep(sm_clock_mhz=runs.sm_clock_mhz, power_w=runs.power_w, time_s=runs.time_s)


def smoothed_best_mhz(measured: Sweep, goal: Goal) -> float:
    """Return the best clock of the measured sweep itself once a cubic has smoothed its noise.

    The regret of this choice is what noise alone makes of the best possible one: the least of many
    noisy costs is lower than any of them is. No prediction can be held to less.
    """
    cost = measured.cost(goal)
    known = np.isfinite(cost)
    height = np.log(measured.sm_clock_mhz[known] / measured.sm_clock_mhz[known].max())
    degree = min(_SMOOTH_DEGREE, int(known.sum()) - 1)
    smooth = np.polyval(np.polyfit(height, np.log(cost[known]), degree), height)
    return float(measured.sm_clock_mhz[known][int(np.argmin(smooth))])


def best_fixed_ratio(trained: Runs, profiled: Runs, goal: Goal) -> float:
    """Return the clock over the default clock that was best for the training applications.

    Args:
        trained: Their runs.
        profiled: Where the default clock of each is looked up.
        goal: What is minimised.
    """
    sweeps = []
    for pair, rows in trained.by_pair():
        one = trained.select(rows)
        default_mhz = profiled.sm_clock_mhz[profiled.profile_row(*pair)]
        sweeps.append(
            Sweep(
                sm_clock_mhz=np.round(one.sm_clock_mhz / default_mhz, 4),
                power_w=one.power_w,
                time_s=one.time_s,
            )
        )
    return best_fixed_clock_mhz(sweeps, goal)
