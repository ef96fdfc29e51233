"""The law of time over clocks: a part that waits for no clock, and a roofline of core and memory.

With ``r`` the clock over that of the profile, time over that of the profile is
``1 - h + h R(r) / R(1)``, ``R(r) = ((1 / r)^4 + (mu max(1, k / r))^4)^(1/4)``: ``h`` is the
share of the time that the device works, ``mu`` time for memory over time in the core at the default
clock, and ``k`` the clock below which memory is starved (fourth-power mean: ``core/physics.py``).
"""

import numpy as np

from joulelab.core.physics import roofline_s
from joulelab.power_models.runs import Array

_CEILING = 1.1
"""Memory activity at which memory alone would bound; measured activities end at about 0.9."""
WEIGHTS = ("idle", "sm", "engine", "memory", "memory_fp", "knee")
"""What is learned: the odds of the working share at rest and by SM and graphics engine activity,
the memory ratio without and by FP activity, and the log of the knee over the catalogue's."""
DOUBT = np.array([3.0, 3.0, 3.0, 3.0, 3.0, 0.3])
"""Standard errors of the weights around 0, before anything is learned."""


def application_parameters(weights: Array, inputs: Array) -> Array:
    """Return the log-odds of ``h`` and the log of ``mu`` of each profile, shape (profiles, 2)."""
    sm, fp, _, dram, engine = inputs.T
    odds = weights[0] + weights[1] * sm + weights[2] * engine
    memory = weights[3] + weights[4] * fp + np.log(memory_over_core(dram))
    return np.column_stack([odds, memory])


def memory_over_core(dram_active: Array) -> Array:
    """Return the time for memory over that in the core at the clock of the profile."""
    dram_active = np.clip(dram_active, 1e-3, 1.0)
    return np.asarray(dram_active / (_CEILING - dram_active))


def relative_time(ratio: Array, parameters: Array, knee: Array) -> Array:
    """Return time over that of the profile; one row of ``parameters`` per entry of ``ratio``."""
    working = 1.0 / (1.0 + np.exp(-np.clip(parameters[:, 0], -30.0, 30.0)))
    memory = np.exp(np.clip(parameters[:, 1], -12.0, 6.0))
    return np.asarray(
        1.0 - working + working * roofline(ratio, memory, knee) / roofline(1.0, memory, knee)
    )


def roofline(ratio: Array | float, memory: Array, knee: Array | float) -> Array:
    """Return ``R`` at each clock ratio, ``memory`` being ``mu``."""
    starved = np.maximum(1.0, knee / ratio)
    return roofline_s(np.broadcast_to(1.0 / np.asarray(ratio), memory.shape), memory * starved)
