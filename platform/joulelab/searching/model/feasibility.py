"""How likely every configuration keeps to the constraints, as far as the evidence tells."""

from collections.abc import Callable, Sequence
from math import inf, log, nan

import numpy as np
from numpy.typing import NDArray

from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import Constraint, probability_below
from joulelab.searching.evidence import Evidence, Kept, Problem
from joulelab.searching.model.covariances import MEMORY, QUALITY, CellKernel, Spread, field
from joulelab.searching.model.hypotheses import Hypotheses
from joulelab.searching.model.law import Rows
from joulelab.searching.model.warmth import warmth_line
from joulelab.searching.space import SearchSpace, at_default
from joulelab.workloads import WORKLOADS

Array = NDArray[np.float64]

_PART_SD = 0.1
"""How far the share of a request's part may move with the clock, relative: an estimate, since the
decode waits for memory where the prefill computes."""
_AWAY_SD = 0.2
"""How far time and power may be off from what the law says, relative, by the distance to what was
measured of the cell, in logarithms of clock and limit: one clock tells little of how time grows."""
_DIRECTION = {"power_w": 1.0, "temperature_c": 1.0} | dict.fromkeys(
    ("slowdown", "latency_s", "ttft_s", "tpot_s", "throughput_per_s"), -1.0
)
"""Where along clocks and power limits a quantity gets no better: at higher or at lower ones."""
_SURPRISE, _SURPRISE_SD = 0.05, 0.1  # how likely it does nevertheless, and by how much of itself


class Feasibility:
    """Turns evidence, which may grow, and what a model expects, into probabilities.

    Each configuration has the number of its ``cell`` and a ``place`` on the axes of the operating
    point; ``reference`` is the place of the same knobs at the driver's clock. Shapes ``(n,)``,
    ``(n, 2)``, ``(n,)``.
    """

    def __init__(
        self, evidence: Evidence, cell: NDArray[np.intp], place: Array, kernel: CellKernel
    ) -> None:
        space = evidence.problem.space
        self._evidence, self._cell, self._kernel = evidence, cell, kernel
        self._place = place
        self._known_quality = _known_quality(evidence.problem)
        self.reference = _references(space)
        self._request_size = _request_sizes(space, cell)

    def feasible(
        self, belief: Hypotheses, rows: Rows, logs: Array, valid: Sequence[Outcome]
    ) -> Array:
        """Return the probability of keeping to all constraints of each configuration.

        ``logs`` of time and power are expected of every one of ``rows``; ``valid`` trials tell of
        anything.
        """
        total = np.ones(len(self._cell))
        for constraint in self._evidence.problem.constraints:
            found = self._probability(constraint, belief, rows, logs, valid)
            total *= self._as_next_to(constraint, found)
        for configuration in self._evidence.measured:
            if not self._evidence.lacks_reference(configuration):
                place = self._evidence.problem.space.index(configuration)
                total[place] = self._evidence.judgement(configuration).probability
        return total

    def _as_next_to(self, constraint: Constraint, found: Array) -> Array:
        """Return probabilities as what was measured of the same cell allows.

        What breaks a bound on power does so at higher clocks as well, what keeps to one on time
        keeps to it there.
        """
        if (direction := _DIRECTION.get(constraint.quantity)) is None:
            return found
        for each in self._evidence.measured:
            if self._evidence.lacks_reference(each):
                continue
            known = self._evidence.judgement(each, [constraint]).probability
            at = self._evidence.problem.space.index(each)
            away = direction * (self._place - self._place[at])
            same = self._cell == self._cell[at]
            worse, better = (same & (side * away >= 0.0).all(axis=1) for side in (1.0, -1.0))
            over = [m.excess for m in self._evidence.missed(each) if m.constraint == constraint]
            surprise = min(_SURPRISE, probability_below(0.0, sum(over), _SURPRISE_SD))
            found[worse] = np.minimum(found[worse], max(known, surprise))
            found[better] = np.maximum(found[better], min(known, 1.0 - _SURPRISE))
        return found

    def _probability(
        self,
        constraint: Constraint,
        belief: Hypotheses,
        rows: Rows,
        logs: Array,
        valid: Sequence[Outcome],
    ) -> Array:
        """Return the probability of keeping to ``constraint`` of each configuration."""
        if constraint.quantity == "quality":
            mean, u = self.quality(valid)
            return _below(-log(constraint.bound), -mean, u)
        if constraint.quantity == "memory_b":
            mean, u = self._field(MEMORY, self._known(valid, lambda f: f.memory_b))
            return _below(log(constraint.bound), mean, u)
        if constraint.quantity == "temperature_c":
            return _below(constraint.bound, *self._temperature_c(logs, valid))
        side = (0.0, 1.0) if constraint.quantity == "power_w" else (1.0, 0.0)
        sums = belief.quantities(rows, side)
        mean, variance = sums.mean, belief.variance(sums, sums)
        bound, own = log(constraint.bound) if constraint.bound else 0.0, self._away(valid)
        match constraint.quantity:
            case "slowdown":
                usual = self.reference if constraint.against == "cell" else 0 * self._cell
                shared = belief.variance(sums, sums.at(usual))
                mean = mean - mean[usual]
                variance = variance + variance[usual] - 2.0 * shared
                bound = log(1.0 + constraint.bound)
            case "latency_s":
                mean = mean + self._request_size
            case "ttft_s" | "tpot_s":
                share, part = self._part(constraint.quantity, valid)
                mean, own = mean + share, np.hypot(own, part)
            case "throughput_per_s":
                bound = -bound
        return _below(bound, mean, np.sqrt(np.maximum(variance + own**2, 0.0)))

    def _away(self, valid: Sequence[Outcome]) -> Array:
        """Return how far the law may be off away from what was measured; shape ``(n,)``."""
        nearest = np.full(len(self._cell), inf)
        for at in {self._evidence.problem.space.index(each.candidate) for each in valid}:
            far = np.abs(self._place - self._place[at]).max(axis=1)
            nearest = np.where(self._cell == self._cell[at], np.minimum(nearest, far), nearest)
        return _AWAY_SD * np.where(np.isfinite(nearest), nearest, 0.0)

    def _part(self, name: str, valid: Sequence[Outcome]) -> tuple[Array, Array]:
        """Return the logarithm of a part of a request's time over that of a unit of work.

        It is taken to be the same at all clocks of a cell, and that to be off by some percent.
        """
        shares = self._known(valid, lambda f: (getattr(f, name) or 0.0) / f.time_s)
        mean, deviation = self._field(MEMORY, shares)
        return mean, np.hypot(deviation, _PART_SD)

    def quality(self, valid: Sequence[Outcome]) -> tuple[Array, Array]:
        """Return the logarithm of what is kept of the quality and its standard deviation."""
        if self._known_quality is not None:
            return self._known_quality
        space = self._evidence.problem.space
        known = self._known(valid, lambda f: f.retention)
        u = [f.retention_relative_u for _, f, _ in known]
        mean, deviation = self._field(QUALITY, known, u=np.array(u), middle=0.0)
        for each in valid:
            if each.figures is not None and each.figures.retention == 0:
                same = self._cell == self._cell[space.index(each.candidate)]
                mean[same], deviation[same] = -inf, 0.0
        return mean, deviation

    def _known(
        self, valid: Sequence[Outcome], quantity: Callable[[Figures], float | None]
    ) -> list[tuple[int, Figures, float]]:
        """Return where a quantity is known and positive, with the figures and its logarithm."""
        space = self._evidence.problem.space
        return [
            (space.index(each.candidate), each.seen, log(value))
            for each in valid
            if each.seen is not None and (value := quantity(each.seen))
        ]

    def _field(
        self,
        spread: Spread,
        known: Sequence[tuple[int, Figures, float]],
        *,
        u: Array | None = None,
        middle: float | None = None,
    ) -> tuple[Array, Array]:
        """Return a cell's quantity by configuration: expected logarithm, standard deviation.

        Before it is known of a cell it is expected to be ``middle``, by default the mean.
        """
        logs = np.array([value for _, _, value in known])
        cell = self._cell[np.array([place for place, _, _ in known], dtype=np.intp)]
        if middle is None:
            middle = float(logs.mean()) if len(known) else 0.0
        u = np.zeros(len(known)) if u is None else u
        mean, deviation = field(self._kernel, spread, cell, logs - middle, u)
        return (mean + middle)[self._cell], deviation[self._cell]

    def _temperature_c(self, logs: Array, valid: Sequence[Outcome]) -> tuple[Array, Array]:
        """Return temperatures by a line over power: mean and standard deviation."""
        power_w = np.exp(logs[:, 1])
        line = warmth_line(*heat([each.seen for each in valid if each.seen is not None]))
        if line is None:
            return np.zeros_like(power_w), np.full_like(power_w, inf)
        return line.at(power_w)


def _references(space: SearchSpace) -> NDArray[np.intp]:
    """Return the places of the same knobs at the driver's clock; the baseline's where none are."""
    at = [at_default(each) for each in space]
    return np.array([space.index(each) if each in space else 0 for each in at], dtype=np.intp)


def _request_sizes(space: SearchSpace, cell: NDArray[np.intp]) -> Array:
    """Return logarithms of the units of work in a request; 0 where that is not known."""
    kind, sizes = WORKLOADS[space.workload], {}
    for place, number in enumerate(cell):
        if number not in sizes:
            request = kind.from_knobs(dict(space[place].knobs)).request
            sizes[number] = 0.0 if request is None else log(request.size)
    return np.array([sizes[number] for number in cell])


def heat(figures: Sequence[Figures]) -> tuple[Array, Array]:
    """Return power in watts, and temperature in degrees Celsius, NaN where it was not read."""
    power_w = np.array([each.energy_j / each.time_s for each in figures])
    heat_c = [nan if each.temperature_c is None else each.temperature_c for each in figures]
    return power_w, np.array(heat_c)


def _known_quality(problem: Problem) -> tuple[Array, Array] | None:
    """Return what :meth:`Feasibility.quality` does, as far as it is known before any trial."""
    if not problem.qualities:
        return None
    kept = [problem.qualities[each.knobs] for each in problem.space]
    with np.errstate(divide="ignore"):
        log_kept = np.log([each.retention for each in kept])
    return log_kept, np.array([each.relative_u for each in kept])


def _below(bound: float, value: Array, u: Array) -> Array:
    from scipy.special import ndtr  # type: ignore[import-untyped]

    with np.errstate(divide="ignore", invalid="ignore"):
        found = ndtr((bound - value) / u)
    return np.where(u > 0, found, (value <= bound).astype(np.float64))


def surely_infeasible(problem: Problem) -> NDArray[np.bool_]:
    """Return which configurations lose too much of the quality, as far as it is known before.

    Those are the ones that are as sure to break a bound on the quality as a choice must be to
    keep it, and, where quality counts, those that lose it all. The baseline is none of them: what
    others are compared with is measured whatever it is worth.
    """
    verdicts = {
        cell: _is_surely_infeasible(kept, problem) for cell, kept in problem.qualities.items()
    }
    found = np.array([verdicts.get(each.knobs, False) for each in problem.space], dtype=bool)
    found[0] = False
    return found


def _is_surely_infeasible(kept: Kept, problem: Problem) -> bool:
    floors = [each.bound for each in problem.constraints if each.quantity == "quality"]
    if kept.retention == 0:
        return bool(problem.objective.quality_exponent or floors)
    least = 1.0 - problem.confidence
    return any(
        probability_below(0.0, log(bound / kept.retention), kept.relative_u) < least
        for bound in floors
    )
