"""Conformal intervals from errors on applications that a model was not shown.

A whole group (an application) is held out at a time, because rows of one application err alike.
Each group counts the same, however many rows it has. The application that will be asked about is
one more group, whose errors are not known. If rows of a group err all alike it has to count as one
whose errors are larger than all, so that a level needs at least ``level / (1 - level)`` groups. If
they err as differently as rows of different groups, the many rows of the others tell the quantile
by themselves. In between it counts for as much as rows of a group do err alike (their intraclass
correlation), which keeps the promise in simulated tables of either kind and of both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError
from joulelab.power_models.runs import Array, Flags, Names

SECOND_POINT = 0.6
"""Clock ratio at which to measure an application for the second time, if nothing else is asked."""
ANCHOR_SETS = ((1.0,), (1.0, SECOND_POINT))
"""Clock ratios at which held-out groups are anchored, to learn what errors are left then."""
_UNANCHORED: tuple[float, ...] = ()
LEFT_OUT_AT = (_UNANCHORED, *ANCHOR_SETS)
_NUM_BINS = 8
_LEAST_GROWTH = 0.1
"""Errors next to an anchor count as at least this share of the errors far from it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interval:
    """Where measured values are expected, one entry per query.

    ``level`` is the share of an unseen application's rows that they are to cover, and ``outside``
    what is outside the training domain, where the interval was widened.
    """

    lower: Array
    upper: Array
    level: float
    outside: tuple[str, ...]

    @classmethod
    def around(
        cls, center: Array, half: Array, *, level: float, outside: tuple[str, ...]
    ) -> "Interval":
        """Return the interval whose half widths in logs are ``half``."""
        lower, upper = center * np.exp(-half), center * np.exp(half)
        return cls(lower=lower, upper=upper, level=level, outside=outside)

    def __iter__(self) -> Iterator[Array]:
        """Unpack into the lower and the upper ends."""
        return iter((self.lower, self.upper))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Errors of predictions for groups that were held out."""

    group: Names  # group of each row
    log_ratio: Array  # log of the clock ratio
    log_error: Array  # log(measured / predicted)
    # The same with each of ANCHOR_SETS measured, not a number at the anchors; shape (sets,
    # n).
    anchored_error: Array

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Calibration":
        """Return what was stored by the names of its fields; other arrays are left out."""
        return cls(**{each.name: arrays[each.name] for each in fields(cls)})

    def half_width(self, level: float, log_ratio: Array, anchors: Sequence[float] = ()) -> Array:
        """Return the half width of the interval of ``level`` in logs at each clock ratio's log.

        ``anchors`` are logs of the clock ratios at which the application was measured.

        Raises:
            ConfigError: If ``level`` is not between 0 and 1, or too high for so few groups.
        """
        errors, at = self._after(anchors)
        if not anchors:
            return np.full(len(log_ratio), self._quantile(np.abs(errors), level))
        distance = _distance(self.log_ratio, at)
        growth = _growth(np.abs(errors), distance)
        scores = np.abs(errors) / growth(distance)
        return self._quantile(scores, level) * growth(_distance(log_ratio, anchors))

    def _after(self, anchors: Sequence[float]) -> tuple[Array, Sequence[float]]:
        """Return the errors that are left when every group is anchored, and where it was."""
        if not anchors:
            return self.log_error, anchors
        number = min(len(anchors), len(ANCHOR_SETS)) - 1
        return self.anchored_error[number], np.log(ANCHOR_SETS[number]).tolist()

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
        weight = (1.0 / counts)[which]
        reached = np.cumsum(weight[order])
        plain = scores[order][np.searchsorted(reached, level * len(groups) - 1e-9)]
        covered = np.bincount(which, weight * (scores <= plain)).astype(float)
        needed = level * (len(groups) + _alike(covered))
        position = min(int(np.searchsorted(reached, needed - 1e-9)), len(order) - 1)
        return float(scores[order][position])


def group_folds(groups: Names, num_folds: int, seed: int) -> list[Flags]:
    """Return which rows each fold holds out, whole groups at a time.

    Up to twice as many groups as folds are left out one by one. More are dealt into folds, and
    then once more: what one deal has left out together, such as all that memory bounds, made some
    intervals seven times as wide as those of another seed.
    """
    names = np.unique(groups)
    if len(names) <= 2 * num_folds:
        return [groups == name for name in names]
    random = np.random.default_rng(seed)
    deals = [names[random.permutation(len(names))] for _ in range(2)]
    return [np.isin(groups, deal[start::num_folds]) for deal in deals for start in range(num_folds)]


def _alike(shares: Array) -> float:
    """Return how much alike rows of a group are, 0 to 1, from the share covered of each group.

    The variance of the shares over that of single rows: 1 if each group is covered or missed as a
    whole, and next to 0 if rows are so independently.
    """
    mean = shares.mean()
    if not 0.0 < mean < 1.0:
        return 1.0
    return float(min(1.0, shares.var(ddof=1) / (mean * (1.0 - mean))))


def _growth(error: Array, distance: Array) -> Callable[[Array], Array]:
    """Return how errors grow with the distance from the nearest anchor: a mean that never falls.

    Linear between the middles of bins, and never below a share of the largest.
    """
    known = ~np.isnan(error)
    order = np.argsort(distance[known], kind="stable")
    bins = [part for part in np.array_split(order, _NUM_BINS) if len(part)]
    middles = [distance[known][part].mean() for part in bins]
    means = np.maximum.accumulate([error[known][part].mean() for part in bins])
    means = np.maximum(means, _LEAST_GROWTH * means[-1] + 1e-12)
    return lambda at: np.interp(at, middles, means)


def _distance(log_ratio: Array, anchors: Sequence[float]) -> Array:
    """Return the distance of each clock from the nearest anchor, in logs."""
    return np.asarray(np.min(np.abs(log_ratio[:, None] - np.array(anchors)[None, :]), axis=1))
