"""Cost and feasibility of every configuration of a space, as far as the evidence tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, nan

import numpy as np
from numpy.typing import NDArray

from joulelab.core.configuration import Configuration
from joulelab.core.physics import CAP_SHARE
from joulelab.search.base import Figures, Outcome
from joulelab.search.constraints import Constraint
from joulelab.search.evidence import Evidence, Problem
from joulelab.search.model.belief import Expected, Observed, Rows
from joulelab.search.model.cells import Likeness, Spread
from joulelab.search.model.fields import MEMORY, QUALITY, field
from joulelab.search.model.hypotheses import Hypotheses
from joulelab.search.model.priors import board_prior
from joulelab.search.model.warmth import excess_k, warmth_line
from joulelab.search.space import Cell, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """What is expected of every configuration, in the order of the space.

    Attributes:
        log_cost: Expected logarithm of the cost, infinite where quality counts and is lost; shape
            ``(n,)``.
        slopes: Its derivatives by what is unknown; shape ``(n, p)``.
        covariance: Of what is unknown; shape ``(p, p)``.
        own_variance: Variance of the cost besides that, which a trial would show; shape ``(n,)``.
        quality_variance: Variance of the cost from the quality that is known beforehand, which no
            trial makes any less; shape ``(n,)``.
        outputs: Numbers of the outputs; those of one number share the quality's error.
        feasible: Probability of keeping to all constraints; shape ``(n,)``.
        logs: Expected logarithms of time and power; shape ``(n, 2)``.
        log_time_power: Derivatives of :attr:`logs`; shape ``(n, 2, p)``.
        log_quality: Expected logarithm of what is kept of the quality, ``-inf`` where it is lost;
            shape ``(n,)``.
        noise: Variance of the logarithms of time and power of one more trial.
        unexplained: Variance of a logarithm of cost around the law.
        belief: What all this follows from.
        rows: The configurations, as the law sees them.
        time_exponent: Of time in the cost, of which power is the other factor.
    """

    log_cost: Array
    slopes: Array
    covariance: Array
    own_variance: Array
    quality_variance: Array
    outputs: NDArray[np.intp]
    feasible: Array
    logs: Array
    log_time_power: Array
    log_quality: Array
    noise: float
    unexplained: float
    belief: Hypotheses
    rows: Rows
    time_exponent: float

    def given(self, places: Sequence[int]) -> Array:
        """Return the covariance once the configurations at ``places`` are measured as well."""
        if not places:
            return self.covariance
        told = self.log_time_power[list(places)].reshape(2 * len(places), -1)
        across = self.covariance @ told.T
        shown = told @ across + self.noise * np.eye(len(told))
        left: Array = self.covariance - across @ np.linalg.solve(shown, across.T)
        return left

    def deviation(self, reference: int, covariance: Array) -> Array:
        """Return the standard deviation of each cost less that of ``reference``; shape (n,)."""
        difference = self.slopes - self.slopes[reference]
        variance = np.einsum("ij,ij->i", difference @ covariance, difference)
        own = np.where(np.arange(len(variance)) == reference, 0.0, self.own_variance)
        return np.asarray(np.sqrt(np.maximum(variance + own, 0.0)))


class Forecaster:
    """Turns evidence into forecasts.

    Args:
        evidence: What was measured; it may grow.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        space = evidence.problem.space
        keys = [_cell(space, each) for each in space]
        self._cells = tuple(dict.fromkeys(keys))
        places = {cell: number for number, cell in enumerate(self._cells)}
        self.cell = np.array([places[key] for key in keys], dtype=np.intp)
        top_mhz = _top_mhz(space)
        self.ratio = np.array([(c.point.sm_clock_mhz or top_mhz) / top_mhz for c in space])
        self._board = board_prior(evidence.problem.gpu, top_mhz)
        self._likeness = Likeness(self._cells)
        self._outputs = _outputs(evidence.problem, self.cell)
        self._known_quality = _known_quality(evidence.problem)

    def forecast(self) -> Forecast:
        """Return what is expected now; at least one configuration must have been measured."""
        problem = self._evidence.problem
        valid = [each for each in self._evidence.outcomes if each.figures is not None]
        boards = {f.board: None for f in (each.figures for each in valid) if f is not None}
        observed = self._observed(valid, list(boards))
        belief = Hypotheses(self._cells, observed, self._board, len(boards))
        rows = self._rows(valid)
        expected = belief.expected(rows)
        exponent = 1.0 + problem.goal.time_exponent
        quality, quality_u = self._quality(valid)
        log_cost = expected.logs[:, 1] + exponent * expected.logs[:, 0]
        lost = problem.goal.quality_exponent
        feasible = self._feasible(expected, belief.covariance, valid)
        variance = (lost * quality_u) ** 2
        if lost:
            log_cost -= lost * quality
            feasible[np.isinf(log_cost)] = 0.0
        return Forecast(
            log_cost=log_cost,
            slopes=expected.slopes[:, 1] + exponent * expected.slopes[:, 0],
            covariance=belief.covariance,
            own_variance=np.zeros_like(variance) if problem.qualities else variance,
            quality_variance=variance if problem.qualities else np.zeros_like(variance),
            outputs=self._outputs,
            feasible=feasible,
            logs=expected.logs,
            log_time_power=expected.slopes,
            log_quality=quality,
            noise=belief.noise * float(np.mean(observed.u**2)) + belief.misfit**2,
            unexplained=(1.0 + exponent**2) * belief.misfit**2,
            belief=belief,
            rows=rows,
            time_exponent=exponent,
        )

    def _observed(self, valid: Sequence[Outcome], boards: Sequence[str]) -> Observed:
        space = self._evidence.problem.space
        at = np.array([space.index(each.candidate) for each in valid], dtype=np.intp)
        figures = [each.figures for each in valid if each.figures is not None]
        limits = [
            f.energy_j / f.time_s if each.capped else inf
            for each, f in zip(valid, figures, strict=True)
        ]
        rows = Rows(
            cell=self.cell[at],
            ratio=self.ratio[at],
            limit_w=np.array(limits),
            board=np.array([boards.index(f.board) for f in figures], dtype=np.intp),
            warmth_k=np.where(np.isinf(limits), excess_k(*_heat(figures)), 0.0),
        )
        logs = [[log(f.time_s), log(f.energy_j / f.time_s)] for f in figures]
        u = [[f.time_u_s / f.time_s, f.energy_u_j / f.energy_j] for f in figures]
        return Observed(rows=rows, logs=np.array(logs), u=np.array(u))

    def _rows(self, valid: Sequence[Outcome]) -> Rows:
        space = self._evidence.problem.space
        seen = [_power_w(o) for o in valid if o.capped and o.candidate.point.power_limit_w is None]
        default_w = max(seen, default=inf)
        limits = [
            default_w if c.point.power_limit_w is None else CAP_SHARE * c.point.power_limit_w
            for c in space
        ]
        board = np.zeros(len(space), dtype=np.intp)
        return Rows(
            cell=self.cell,
            ratio=self.ratio,
            limit_w=np.array(limits),
            board=board,
            warmth_k=np.zeros(len(space)),
        )

    def _feasible(self, expected: Expected, covariance: Array, valid: Sequence[Outcome]) -> Array:
        total = np.ones(len(self.cell))
        for constraint in self._evidence.problem.constraints:
            total *= self._probability(constraint, expected, covariance, valid)
        for configuration in self._evidence.measured if self._can_judge else ():
            place = self._evidence.problem.space.index(configuration)
            total[place] = self._evidence.judgement(configuration).probability
        return total

    @property
    def _can_judge(self) -> bool:
        slowed = any(c.quantity == "slowdown" for c in self._evidence.problem.constraints)
        return self._evidence.baseline is not None or not slowed

    def _probability(
        self,
        constraint: Constraint,
        expected: Expected,
        covariance: Array,
        valid: Sequence[Outcome],
    ) -> Array:
        """Return the probability of keeping to ``constraint`` of each configuration."""
        if constraint.quantity == "quality":
            mean, u = self._quality(valid)
            return _below(-log(constraint.bound), -mean, u)
        if constraint.quantity == "memory_b":
            mean, u = self._field(MEMORY, valid, "memory_b")
            return _below(log(constraint.bound), mean, u)
        if constraint.quantity == "temperature_c":
            return _below(constraint.bound, *self._temperature_c(expected, valid))
        side = 1 if constraint.quantity == "power_w" else 0
        mean, slopes = expected.logs[:, side], expected.slopes[:, side]
        bound = constraint.bound
        if constraint.quantity == "slowdown":
            mean, slopes, bound = mean - mean[0], slopes - slopes[0], 1.0 + constraint.bound
        variance = np.einsum("ij,ij->i", slopes @ covariance, slopes)
        return _below(log(bound), mean, np.sqrt(np.maximum(variance, 0.0)))

    def _quality(self, valid: Sequence[Outcome]) -> tuple[Array, Array]:
        """Return the logarithm of what is kept of the quality and its standard deviation."""
        if self._known_quality is not None:
            return self._known_quality
        space = self._evidence.problem.space
        mean, deviation = self._field(QUALITY, valid, "retention")
        for each in valid:
            if each.figures is not None and each.figures.retention == 0:
                same = self.cell == self.cell[space.index(each.candidate)]
                mean[same], deviation[same] = -inf, 0.0
        return mean, deviation

    def _field(self, spread: Spread, valid: Sequence[Outcome], name: str) -> tuple[Array, Array]:
        """Return a cell's quantity by configuration: expected logarithm, standard deviation."""
        told = [
            (self._evidence.problem.space.index(each.candidate), each.figures)
            for each in valid
            if each.figures is not None and getattr(each.figures, name)
        ]
        cell = self.cell[np.array([place for place, _ in told], dtype=np.intp)]
        values = np.array([getattr(figures, name) for _, figures in told])
        middle = float(np.mean(np.log(values))) if name == "memory_b" and told else 0.0
        u = np.array([f.retention_relative_u if name == "retention" else 0.0 for _, f in told])
        mean, deviation = field(self._likeness, spread, cell, np.log(values) - middle, u)
        return (mean + middle)[self.cell], deviation[self.cell]

    def _temperature_c(self, expected: Expected, valid: Sequence[Outcome]) -> tuple[Array, Array]:
        """Return temperatures by a line over power: mean and standard deviation."""
        power_w = np.exp(expected.logs[:, 1])
        line = warmth_line(*_heat([each.figures for each in valid if each.figures is not None]))
        if line is None:
            return np.zeros_like(power_w), np.full_like(power_w, inf)
        return line.at(power_w)


def _cell(space: SearchSpace, configuration: Configuration) -> Cell:
    """Return the knobs, and the memory clock, at which time and power follow other laws."""
    memory = configuration.point.mem_clock_mhz
    known = memory if "mem_clock_mhz" in space.axes else None
    return (*configuration.knobs, ("mem_clock_mhz", known))


def _top_mhz(space: SearchSpace) -> int:
    """Return the highest clock, with which others are compared."""
    return max((c.point.sm_clock_mhz or 1 for c in space), default=1)


def _outputs(problem: Problem, cell: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return numbers of the outputs: those of the cells where nothing is known of their quality."""
    if not problem.qualities:
        return cell
    names = [problem.qualities[each.knobs].outputs for each in problem.space]
    return np.unique(names, return_inverse=True)[1].astype(np.intp)


def _heat(figures: Sequence[Figures]) -> tuple[Array, Array]:
    """Return power in watts, and temperature in degrees Celsius, NaN where it was not read."""
    power_w = np.array([each.energy_j / each.time_s for each in figures])
    heat_c = [nan if each.temperature_c is None else each.temperature_c for each in figures]
    return power_w, np.array(heat_c)


def _power_w(outcome: Outcome) -> float:
    figures = outcome.figures
    return inf if figures is None else figures.energy_j / figures.time_s


def _known_quality(problem: Problem) -> tuple[Array, Array] | None:
    """Return what :meth:`Forecaster._quality` does, as far as it is known before any trial."""
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
