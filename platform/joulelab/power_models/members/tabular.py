"""What learners of tables (trees, networks) are shown, and in which unit they learn.

Power is learned as the logarithm of its share of the board's default limit. Time is learned as
its elasticity, ``-d log(time) / d log(clock)``, averaged from the profile's clock to the queried
one: 0 where the clock does not matter, 1 where time goes as 1 / clock, and a time of 1 at the
clock of the profile whatever is predicted.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import matrix
from joulelab.power_models.queries import Queries, Target
from joulelab.power_models.runs import Array

UNIT_INPUTS = ("fp_active", "dram_active", "tensor_active", "sm_active", "gr_engine_active")
BOARD_INPUTS = ("clock_ratio", "voltage", "default_power_limit_w", "memory_bandwidth_b_per_s")
INPUTS = (*UNIT_INPUTS, *BOARD_INPUTS)

_RISING = ("clock_ratio", "voltage")
"""With these the power of an application does not fall."""
_CLOCK_RATIOS = (0.5, 0.7, 0.9, 1.0)
"""Where the doubt about an application is looked up, over the clock of its profile."""
_LEAST_SPREAD = 0.05
"""Added to every spread, in logs: members agree on much that they have wrong alike."""


class SpreadModel(PowerModel):
    """A model whose intervals are wide where its own spread is.

    A spread says for which applications errors are larger, not how large they are: that is
    learned from applications that were held out, whose errors are divided by their spread
    (conformal prediction with normalised scores). Among the clocks of one application the width
    varies as for every model.
    """

    @abstractmethod
    def spread(self, queries: Queries) -> Array:
        """Return the model's own standard deviation of the logarithm of each answer."""

    @override
    def relative_doubt(self, queries: Queries) -> Array:
        asked = queries.each_profile(_CLOCK_RATIOS)
        spreads = self.spread(asked).reshape(len(queries.profiles), -1)
        doubts = 1.0 + np.sqrt(np.mean(spreads**2, axis=1)) / _LEAST_SPREAD
        return np.asarray(doubts[queries.profile])


class CommitteeModel(SpreadModel):
    """Several learners at once: the mean of their outputs, and the spread between them."""

    @abstractmethod
    def outputs(self, queries: Queries) -> Array:
        """Return the output of each learner, shape ``(learners, n)``."""

    @override
    def answer(self, queries: Queries) -> Array:
        return decoded(queries, self.outputs(queries).mean(axis=0), self.target)

    @override
    def spread(self, queries: Queries) -> Array:
        return np.asarray(log_decoded(queries, self.outputs(queries), self.target).std(axis=0))


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
    outputs = np.log(values) - _log_unit(queries, target)
    if target == "time_s":
        log_ratio = np.log(queries.clock_ratio)
        weights = weights * log_ratio**2
        outputs = -outputs / np.where(log_ratio == 0.0, 1.0, log_ratio)
    weights = weights / max(float(weights.mean()), 1e-300)
    return Examples(inputs=matrix(queries, INPUTS), outputs=outputs, weights=weights)


def decoded(queries: Queries, outputs: Array, target: Target) -> Array:
    """Return what a learner's ``outputs`` mean: watts, or time over that of the profile."""
    return np.exp(log_decoded(queries, outputs, target))


def log_decoded(queries: Queries, outputs: Array, target: Target) -> Array:
    """Return the logarithm of :func:`decoded`; ``outputs`` may have leading dimensions."""
    if target == "time_s":
        return np.asarray(-outputs * np.log(queries.clock_ratio))
    return np.asarray(outputs + _log_unit(queries, target))


def monotone(target: Target) -> list[int]:
    """Return for each input 1 where outputs must not fall with it, 0 where nothing is known."""
    if target == "time_s":
        return [0] * len(INPUTS)
    return [int(name in _RISING) for name in INPUTS]


def _log_unit(queries: Queries, target: Target) -> Array:
    if target == "time_s":
        return np.zeros(len(queries))
    limits_w = [profile.spec.default_power_limit_w for profile in queries.profiles]
    return np.log(queries.of_profiles(limits_w))
