"""Choices of a clock that need no model; every comparison holds them."""

import numpy as np

from joulelab.power_models.decision import Goal, Sweep, best_fixed_clock_mhz
from joulelab.power_models.runs import Runs


def measured_sweep(runs: Runs) -> Sweep:
    """Return the rows of one application on one GPU as a sweep."""
    return Sweep(sm_clock_mhz=runs.sm_clock_mhz, power_w=runs.power_w, time_s=runs.time_s)


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
