"""Anchors: what measured points of an application say about a model's error in it.

The log of measured over predicted at the anchors is an offset, from two clocks on a slope in the
log of the clock ratio besides, and from three on what the line leaves, near the clock where it was
found (a Gaussian process; Rasmussen and Williams 2006, ch. 2). Where the scatter of the points is
known, the slope is taken for as much of it as they can tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array
from joulelab.power_models.state import State

_REACH = 0.1
"""Distance in the log of the clock ratio over which a model errs alike: a tenth of the clock."""
_NOISE = 0.1
"""Variance of what is measured over that of a model's own error: 0.5 % and 1.5 %, squared."""

_TILT = 0.1
"""Standard deviation of the slope that a law lacks: 5 % at 0.6 of the clock, as the law of time
errs."""


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
