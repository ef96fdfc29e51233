"""Conformal intervals from errors on applications that a model was not shown.

A whole group (an application) is held out at a time, because rows of one application err alike.
Each group counts the same, however many rows it has, and one group's worth of doubt stands for
the application that will be asked about; so a level needs at least ``level / (1 - level)`` groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.correction import correction_of
from joulelab.power_models.runs import Array, Index, Names

_NEAR_ANCHOR = 0.05
"""Distance from an anchor, in logs of the clock, within which errors do not shrink further."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Errors of predictions for groups that were held out.

    Attributes:
        group: Group of each row; shape ``(n,)``.
        pair: Number of the application and GPU of each row; shape ``(n,)``.
        log_ratio: Log of the clock ratio; shape ``(n,)``.
        log_error: ``log(measured / predicted)``; shape ``(n,)``.
    """

    group: Names
    pair: Index
    log_ratio: Array
    log_error: Array

    def half_width(self, level: float, log_ratio: Array, anchors: Sequence[float] = ()) -> Array:
        """Return the half width of the interval of ``level`` in logs at each clock ratio's log.

        Args:
            level: Share of rows of an unseen group that are to be covered.
            log_ratio: Where; shape ``(n,)``.
            anchors: Logs of the clock ratios at which the application was measured.

        Raises:
            ConfigError: If ``level`` is not between 0 and 1, or too high for so few groups.
        """
        scores = np.abs(self._after(anchors)) / _spread(self.log_ratio, anchors)
        return np.array(self._quantile(scores, level) * _spread(log_ratio, anchors))

    def _after(self, anchors: Sequence[float]) -> Array:
        """Return the errors that are left when every group is anchored likewise."""
        if not anchors:
            return self.log_error
        left = self.log_error.copy()
        for number in np.unique(self.pair):
            rows = np.flatnonzero(self.pair == number)
            ratio = self.log_ratio[rows]
            near = np.array(sorted({int(np.argmin(np.abs(ratio - each))) for each in anchors}))
            correction = correction_of(ratio[near], self.log_error[rows][near])
            left[rows] -= correction.at(ratio)
        return np.asarray(left)

    def _quantile(self, scores: Array, level: float) -> float:
        if not 0.0 < level < 1.0:
            raise ConfigError(f"level must be between 0 and 1, got {level}.")
        groups, which, counts = np.unique(self.group, return_inverse=True, return_counts=True)
        highest = len(groups) / (len(groups) + 1)
        if level > highest + 1e-12:
            raise ConfigError(
                f"An interval of level {level:g} needs at least "
                f"{int(np.ceil(level / (1 - level) - 1e-9))} groups that were held out, got "
                f"{len(groups)}; the highest level is {highest:.3f}."
            )
        weight = (1.0 / counts)[which] / (len(groups) + 1)
        order = np.argsort(scores)
        reached = np.cumsum(weight[order])
        position = min(int(np.searchsorted(reached, level - 1e-12)), len(order) - 1)
        return float(scores[order][position])


def _spread(log_ratio: Array, anchors: Sequence[float]) -> Array:
    """Return how errors grow with the distance from the anchors; 1 without any."""
    if not anchors:
        return np.ones_like(log_ratio)
    distance = np.min(np.abs(log_ratio[:, None] - np.array(anchors)[None, :]), axis=1)
    return np.asarray(_NEAR_ANCHOR + distance)
