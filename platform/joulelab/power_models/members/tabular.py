"""What learners of tables (trees, networks) are shown, and in which unit they learn.

Power is learned as the logarithm of its share of the board's default limit. Time is learned as
its elasticity, ``-d log(time) / d log(clock)``, averaged from the profile's clock to the queried
one: 0 where the clock does not matter, 1 where time goes as 1 / clock, and a time of 1 at the
clock of the profile whatever is predicted.
"""

from dataclasses import dataclass

import numpy as np

from joulelab.power_models.features import matrix
from joulelab.power_models.queries import Queries, Target
from joulelab.power_models.runs import Array

UNIT_INPUTS = ("fp_active", "dram_active", "tensor_active", "sm_active", "gr_engine_active")
BOARD_INPUTS = ("clock_ratio", "voltage", "default_power_limit_w", "memory_bandwidth_b_per_s")
INPUTS = (*UNIT_INPUTS, *BOARD_INPUTS)

_RISING = ("clock_ratio", "voltage")
"""With these the power of an application does not fall."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examples:
    """What a learner is taught: inputs (not a number where unread), outputs, and their weights."""

    inputs: Array
    outputs: Array
    weights: Array


def examples(queries: Queries, values: Array, target: Target) -> Examples:
    """Return ``values`` as a learner is taught them.

    Every application on every GPU weighs the same, however many clocks it was run at.
    """
    counts = np.bincount(queries.profile, minlength=len(queries.profiles))
    weights = 1.0 / counts[queries.profile]
    outputs = np.log(values) - log_unit(queries, target)
    if target == "time_s":
        log_ratio = np.log(queries.clock_ratio)
        weights = weights * log_ratio**2
        outputs = -outputs / np.where(log_ratio == 0.0, 1.0, log_ratio)
    weights = weights / max(float(weights.mean()), 1e-300)
    return Examples(inputs=matrix(queries, INPUTS), outputs=outputs, weights=weights)


def decoded(queries: Queries, outputs: Array, target: Target) -> Array:
    """Return what a learner's ``outputs`` mean: watts, or time over that of the profile."""
    if target == "time_s":
        return np.asarray(np.exp(-outputs * np.log(queries.clock_ratio)))
    return np.asarray(np.exp(outputs + log_unit(queries, target)))


def monotone(target: Target) -> list[int]:
    """Return for each input 1 where outputs must not fall with it, 0 where nothing is known."""
    if target == "time_s":
        return [0] * len(INPUTS)
    return [int(name in _RISING) for name in INPUTS]


def log_unit(queries: Queries, target: Target) -> Array:
    """Return the log of what values are over: the board's limit for power, else 1."""
    if target == "time_s":
        return np.zeros(len(queries))
    limits_w = [profile.spec.default_power_limit_w for profile in queries.profiles]
    return np.log(queries.of_profiles(limits_w))
