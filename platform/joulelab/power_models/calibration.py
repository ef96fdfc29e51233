"""Conformal intervals from errors on applications that a model was not shown.

A whole group (an application) is held out at a time, because rows of one application err alike.
Each group counts the same, however many rows it has. The application that will be asked about is
one more group, none of whose errors are known: were each group but one error, it would have to
count as one larger than all, so that a level needs at least ``level / (1 - level)`` groups. As far
as rows of a group err differently that is too much, and how much doubt is needed is told by the
groups themselves: that with which each is covered as promised by the errors of the others (cross
validation of pooled quantiles; Dunn, Wasserman and Ramdas 2023 have pooling for groups).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.correction import correction_of
from joulelab.power_models.runs import Array, Index, Names

ANCHOR_SETS = ((1.0,), (1.0, 0.7))
"""Clock ratios at which held-out groups are anchored, to learn what errors are left then."""
_NUM_BINS = 8
_NUM_DOUBTS = 33
"""How many shares of a group's worth of doubt are tried, from none to one."""
_LEAST_GROWTH = 0.1
"""Errors next to an anchor count as at least this share of the errors far from it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Errors of predictions for groups that were held out.

    Attributes:
        group: Group of each row; shape ``(n,)``.
        pair: Number of the application and GPU of each row; shape ``(n,)``.
        log_ratio: Log of the clock ratio; shape ``(n,)``.
        log_error: ``log(measured / predicted)``; shape ``(n,)``.
        anchored_error: The same with each of :data:`ANCHOR_SETS` measured, not a number at the
            anchors; shape ``(sets, n)``. ``None`` where an anchor merely scales and tilts, which
            follows from ``log_error``.
    """

    group: Names
    pair: Index
    log_ratio: Array
    log_error: Array
    anchored_error: Array | None = None

    def half_width(self, level: float, log_ratio: Array, anchors: Sequence[float] = ()) -> Array:
        """Return the half width of the interval of ``level`` in logs at each clock ratio's log.

        Args:
            level: Share of rows of an unseen group that are to be covered.
            log_ratio: Where; shape ``(n,)``.
            anchors: Logs of the clock ratios at which the application was measured.

        Raises:
            ConfigError: If ``level`` is not between 0 and 1, or too high for so few groups.
        """
        errors, at = self._after(anchors)
        if not anchors:
            return np.full(len(log_ratio), self._quantile(np.abs(errors), level))
        growth = _Growth.of(np.abs(errors), _distance(self.log_ratio, at))
        scores = np.abs(errors) / growth.at(_distance(self.log_ratio, at))
        return self._quantile(scores, level) * growth.at(_distance(log_ratio, anchors))

    def _after(self, anchors: Sequence[float]) -> tuple[Array, Sequence[float]]:
        """Return the errors that are left when every group is anchored, and where it was."""
        if not anchors:
            return self.log_error, anchors
        if self.anchored_error is not None:
            number = min(len(anchors), len(ANCHOR_SETS)) - 1
            return self.anchored_error[number], np.log(ANCHOR_SETS[number]).tolist()
        left = self.log_error.copy()
        for number in np.unique(self.pair):
            rows = np.flatnonzero(self.pair == number)
            ratio = self.log_ratio[rows]
            near = np.array(sorted({int(np.argmin(np.abs(ratio - each))) for each in anchors}))
            correction = correction_of(ratio[near], self.log_error[rows][near])
            left[rows] -= correction.at(ratio)
        return left, anchors

    def _quantile(self, scores: Array, level: float) -> float:
        if not 0.0 < level < 1.0:
            raise ConfigError(f"level must be between 0 and 1, got {level}.")
        known = ~np.isnan(scores)
        scores = scores[known]
        groups, which, counts = np.unique(
            self.group[known], return_inverse=True, return_counts=True
        )
        highest = len(groups) / (len(groups) + 1)
        if level > highest + 1e-12:
            raise ConfigError(
                f"An interval of level {level:g} needs at least "
                f"{int(np.ceil(level / (1 - level) - 1e-9))} groups that were held out, got "
                f"{len(groups)}; the highest level is {highest:.3f}."
            )
        order = np.argsort(scores)
        reached = np.zeros((len(groups), len(scores)))
        reached[which[order], np.arange(len(scores))] = (1.0 / counts)[which[order]]
        reached = np.cumsum(reached, axis=1)
        needed = _needed(reached, level) * (len(groups) + 1)
        position = min(int(np.searchsorted(reached.sum(axis=0), needed - 1e-9)), len(order) - 1)
        return float(scores[order][position])


def _needed(reached: Array, level: float) -> float:
    """Return the share of all groups and the one asked about that the quantile has to reach.

    ``level`` if the latter counts as missed altogether, and less if it need not: of the shares at
    which the others cover each group as promised, on average, those with the least coverage, and
    of them the largest.

    Args:
        reached: For each group, which share of it each score reaches; scores ascend along rows.
        level: What is promised.
    """
    num_groups = len(reached)
    shares = level * np.linspace(num_groups / (num_groups + 1), 1.0, _NUM_DOUBTS)
    others = reached.sum(axis=0) - reached
    coverage = np.ones(_NUM_DOUBTS)
    for number, share in enumerate(shares):
        met = others >= share * num_groups - 1e-9
        at = np.where(met.any(axis=1), met.argmax(axis=1), reached.shape[1] - 1)
        coverage[number] = reached[np.arange(num_groups), at].mean()
    enough = coverage >= level - 1e-9
    if not enough.any():
        return level
    return float(shares[coverage <= coverage[enough].min() + 1e-9].max())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Growth:
    """How errors grow with the distance from the nearest anchor: a mean that never falls.

    Attributes:
        distance: Middles of bins of distance, ascending.
        error: Mean error up to each; never below a share of the largest.
    """

    distance: Array
    error: Array

    @classmethod
    def of(cls, error: Array, distance: Array) -> "_Growth":
        known = ~np.isnan(error)
        order = np.argsort(distance[known], kind="stable")
        bins = [part for part in np.array_split(order, _NUM_BINS) if len(part)]
        means = np.maximum.accumulate([error[known][part].mean() for part in bins])
        return cls(
            distance=np.array([distance[known][part].mean() for part in bins]),
            error=np.maximum(means, _LEAST_GROWTH * means[-1] + 1e-12),
        )

    def at(self, distance: Array) -> Array:
        return np.interp(distance, self.distance, self.error)


def _distance(log_ratio: Array, anchors: Sequence[float]) -> Array:
    """Return the distance of each clock from the nearest anchor, in logs."""
    return np.asarray(np.min(np.abs(log_ratio[:, None] - np.array(anchors)[None, :]), axis=1))
