"""What errors teach: conformal intervals of applications not shown, corrections by measured points.

A whole group (an application) is held out at a time, because rows of one application err alike.
Each group counts the same, however many rows it has. The application that will be asked about is
one more group, whose errors are not known. If rows of a group err all alike it has to count as one
whose errors are larger than all, so that a level needs at least ``level / (1 - level)`` groups. If
they err as differently as rows of different groups, the many rows of the others tell the quantile
by themselves. In between it counts for as much as rows of a group do err alike (their intraclass
correlation), which keeps the promise in simulated tables of either kind and of both.

Measured points of an application are anchors. The log of measured over predicted there is an
offset, from two clocks on a slope in the log of the clock ratio besides, and from three on what the
line leaves, near the clock where it was found (a Gaussian process; Rasmussen and Williams 2006,
ch. 2). Where the scatter of the points is known, the slope is taken for as much of it as they can
tell.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulelab.power_models.groups import group_quantile, highest_level
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

SECOND_POINT = 0.6
"""Clock ratio at which to measure an application for the second time, if nothing else is asked."""
ANCHOR_SETS = ((1.0,), (1.0, SECOND_POINT))
"""Clock ratios at which held-out groups are anchored, to learn what errors are left then."""
FEW_KINDS = 1.5
"""How much wider intervals are on boards that were not trained on than errors for those left out
say: of kinds left out, with all their sources, up to 39 % of powers were missed."""
LEAST_WIDENING = 2.0 * FEW_KINDS
"""The same where a single board is known, or those known are alike."""
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
    # The same with each of ANCHOR_SETS measured, not a number at the anchors; shape (sets, n).
    anchored_error: Array

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Calibration":
        """Return what was stored by the names of its fields; other arrays are left out."""
        return cls(**{each.name: arrays[each.name] for each in fields(cls)})

    @property
    def highest_level(self) -> float:
        """Highest level that so many groups give."""
        return highest_level(self.group)

    def half_width(self, level: float, log_ratio: Array, anchors: Sequence[float] = ()) -> Array:
        """Return the half width of the interval of ``level`` in logs at each clock ratio's log.

        ``anchors`` are logs of the clock ratios at which the application was measured. Raises
        ConfigError if ``level`` is not between 0 and 1, or too high for so few groups.
        """
        if not anchors:
            return np.full(len(log_ratio), self._quantile(np.abs(self.log_error), level))
        errors, at = self._after(anchors)
        distance = _distance(self.log_ratio, at)
        growth = _growth(np.abs(errors), distance)
        scores = np.abs(errors) / growth(distance)
        return self._quantile(scores, level) * growth(_distance(log_ratio, anchors))

    def _after(self, anchors: Sequence[float]) -> tuple[Array, Sequence[float]]:
        """Return the errors that are left when every group is anchored, and where it was."""
        number = min(len(anchors), len(ANCHOR_SETS)) - 1
        return self.anchored_error[number], np.log(ANCHOR_SETS[number]).tolist()

    def _quantile(self, scores: Array, level: float) -> float:
        known = ~np.isnan(scores)
        return group_quantile(scores[known], self.group[known], level)


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


_REACH = 0.1
"""Distance in the log of the clock ratio over which a model errs alike: a tenth of the clock."""
_NOISE = 0.1
"""Variance of what is measured over that of a model's own error: 0.5 % and 1.5 %, squared."""
_TILT = 0.1
"""Standard deviation of the slope that a law lacks: 5 % at 0.6 of the clock, as that of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The correction of one application on one GPU.

    Its log is ``offset + slope x``, with ``x`` the log of the clock ratio, and the sum of ``pulls``
    (none for fewer than three anchors) times how near each anchor is; ``anchors`` are logs of the
    clock ratios that were measured, ascending.
    """

    offset: float
    slope: float
    anchors: tuple[float, ...]
    pulls: tuple[float, ...] = ()

    def at(self, log_ratio: Array) -> Array:
        """Return the log of the factor at each clock ratio's log."""
        line = self.offset + self.slope * log_ratio
        if not self.pulls:
            return line
        return np.asarray(line + _nearness(log_ratio, self.anchors) @ np.array(self.pulls))


def correction_of(log_ratio: Array, log_error: Array, scatter: float = 0.0) -> Correction:
    """Fit the correction to the errors ``log(measured / predicted)`` at the anchors.

    ``scatter`` is the relative one of a single anchor; at 0 two are met.
    """
    anchors = tuple(sorted(set(np.round(log_ratio, 9).tolist())))
    if len(anchors) < 2:
        return Correction(offset=float(log_error.mean()), slope=0.0, anchors=anchors)
    middle, off = float(log_ratio.mean()), log_ratio - log_ratio.mean()
    slope = float(off @ log_error / (off @ off + (scatter / _TILT) ** 2))
    offset = float(log_error.mean()) - slope * middle
    line = Correction(offset=offset, slope=slope, anchors=anchors)
    if len(anchors) < 3:
        return line
    which = np.argmin(np.abs(log_ratio[:, None] - np.array(anchors)), axis=1)
    left = np.bincount(which, log_error - line.at(log_ratio)) / np.bincount(which)
    alike = _nearness(np.array(anchors), anchors) + _NOISE * np.eye(len(anchors))
    return replace(line, pulls=tuple(np.linalg.solve(alike, left).tolist()))


def _nearness(log_ratio: Array, anchors: Sequence[float]) -> Array:
    """Return how near each clock is to each anchor, 1 at it."""
    distance = (log_ratio[:, None] - np.array(anchors)) / _REACH
    return np.asarray(np.exp(-(distance**2) / 2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """All corrections of a model."""

    pairs: Mapping[tuple[str, str], Correction] = field(default_factory=dict)
    # Mean offset by GPU label, for GPUs that the model was not trained on: their unanchored
    # applications take it.
    boards: Mapping[str, float] = field(default_factory=dict)

    def log_factor(self, queries: Queries) -> Array:
        """Return the log of the factor for each query, shape ``(n,)``."""
        log_ratio = np.log(queries.clock_ratio)
        total = np.zeros(len(queries))
        for number, rows in queries.by_profile():
            profile = queries.profiles[number]
            correction = self.pairs.get(profile.pair)
            if correction is not None:
                total[rows] = correction.at(log_ratio[rows])
            else:
                total[rows] = self.boards.get(profile.gpu, 0.0)
        return total

    def with_anchors(
        self,
        queries: Queries,
        log_error: Array,
        trained_on: Sequence[str],
        scatter: Array | None = None,
    ) -> "Corrections":
        """Return these and those of new anchors, which replace older ones of the same pair.

        ``log_error`` is that of measured over predicted at each; GPUs ``trained_on`` have
        unanchored applications that take no offset; ``scatter`` is the relative one of single
        anchors of each profile, ``None`` meeting two.
        """
        log_ratio = np.log(queries.clock_ratio)
        scatter = np.zeros(len(queries.profiles)) if scatter is None else scatter
        pairs = dict(self.pairs)
        for number, rows in queries.by_profile():
            pairs[queries.profiles[number].pair] = correction_of(
                log_ratio[rows], log_error[rows], float(scatter[number])
            )
        offsets: dict[str, list[float]] = {}
        for (gpu, _), correction in pairs.items():
            if gpu not in trained_on:
                offsets.setdefault(gpu, []).append(correction.offset)
        boards = {gpu: float(np.mean(values)) for gpu, values in offsets.items()}
        return Corrections(pairs=pairs, boards=boards)

    def state(self) -> State:
        """Return them as a state."""
        pairs = [
            [*pair, each.offset, each.slope, list(each.anchors), list(each.pulls)]
            for pair, each in self.pairs.items()
        ]
        return State(values={"pairs": pairs, "offsets": dict(self.boards)})

    @classmethod
    def of_state(cls, state: State) -> "Corrections":
        """Return what :meth:`state` wrote."""
        pairs = {
            (gpu, application): Correction(
                offset=offset, slope=slope, anchors=tuple(anchors), pulls=tuple(pulls)
            )
            for gpu, application, offset, slope, anchors, pulls in state.values["pairs"]
        }
        return cls(pairs=pairs, boards=state.values["offsets"])
