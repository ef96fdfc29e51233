"""Cost and feasibility of every configuration of a space, as far as the evidence tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular  # type: ignore[import-untyped]

from joulelab.core.configuration import Configuration
from joulelab.core.power_law import CAP_SHARE
from joulelab.searching.base import Outcome
from joulelab.searching.evidence import Evidence, Problem
from joulelab.searching.model.covariances import CellKernel, Covariances
from joulelab.searching.model.feasibility import Feasibility, heat
from joulelab.searching.model.hypotheses import Hypotheses, Quantities
from joulelab.searching.model.law import Observed, Rows
from joulelab.searching.model.parameters import board_prior
from joulelab.searching.model.warmth import excess_k
from joulelab.searching.space import Cell, SearchSpace

Array = NDArray[np.float64]

SIDES = ((1.0, 0.0), (0.0, 1.0))
"""Weights of the logarithms of time and power that make one of them."""
_AT_LIMIT = 1e-3  # how near to the limit a logarithm of power is at it: the clock is found in steps
_NEAR_LIMIT = 0.2
"""The same in a cell of which nothing but the cap is known: the next clock leaves it some room."""
_ABOVE = 0.98  # share of a power that is not above it: boards and trials differ
_FIRST = 3
"""How many measurements the first belief rests on; each further stage rests on twice as many."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """What is expected of every configuration, in the order of the space."""

    # Expected logarithm of the cost, infinite where quality counts and is lost; shape (n,).
    log_cost: Array
    own_variance: Array  # variance of the cost besides that, which a trial would show; shape (n,)
    # Variance of the cost from the quality that is known beforehand, which no trial makes any less;
    # shape (n,).
    quality_variance: Array
    # Numbers of the outputs; those of one number share the quality's error.
    outputs: NDArray[np.intp]
    feasible: Array  # probability of keeping to all constraints; shape (n,)
    logs: Array  # expected logarithms of time and power; shape (n, 2)
    # Expected logarithm of what is kept of the quality, -inf where it is lost; shape (n,).
    log_quality: Array
    noise: float  # variance of the logarithms of time and power of one more trial
    unexplained: float  # variance of a logarithm of cost around the law
    # Where a clock is asked for that the power cap is expected to hold down, so that a lower one
    # gives the same; shape (n,).
    is_capped: NDArray[np.bool_]
    belief: Hypotheses  # what all this follows from
    rows: Rows  # the configurations, as the law sees them
    time_exponent: float  # of time in the cost, of which power is the other factor

    def costs(self, places: NDArray[np.intp]) -> Quantities:
        """Return the costs of some configurations without the quality, and what is open of them."""
        return self.belief.quantities(self.rows.at(places), (self.time_exponent, 1.0))

    def deviation(self, reference: int) -> Array:
        """Return the standard deviation of each cost less that of ``reference``; shape ``(n,)``."""
        cost = self.costs(np.arange(len(self.log_cost)))
        variance = self.belief.variance(cost, cost)
        variance = variance + variance[reference]
        variance -= 2.0 * self.belief.covariance(cost, cost.at(np.array([reference])))[:, 0]
        own = np.where(np.arange(len(variance)) == reference, 0.0, self.own_variance)
        return np.asarray(np.sqrt(np.maximum(variance + own, 0.0)))

    def spread(self, weights: tuple[float, float], out: Sequence[int] = ()) -> Array:
        """Return the standard deviation of a weighed sum of logarithms of time and power of each.

        Places in ``out`` will have been measured as well.
        """
        sums = self.belief.quantities(self.rows, weights)
        variance = self.belief.variance(sums, sums)
        variance -= np.sum(self._known_by(sums, out) ** 2, axis=0)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def _known_by(self, sums: Quantities, out: Sequence[int]) -> Array:
        """Return what readings at ``out`` will tell, in whose terms these are one each."""
        if not len(out):
            return np.zeros((0, len(sums.mean)))
        rows = self.rows.at(np.array(out, dtype=np.intp))
        readings = [self.belief.quantities(rows, side) for side in SIDES]
        shown = np.block([[self.belief.covariance(a, b) for b in readings] for a in readings])
        across = np.vstack([self.belief.covariance(each, sums) for each in readings])
        root = np.linalg.cholesky(shown + self.noise * np.eye(len(shown)))
        return np.asarray(solve_triangular(root, across, lower=True))


class Forecaster:
    """Turns evidence, which may grow, into forecasts."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        space = evidence.problem.space
        keys = [_cell(space, each) for each in space]
        self._cells = tuple(dict.fromkeys(keys))
        places = {cell: number for number, cell in enumerate(self._cells)}
        self.cell = np.array([places[key] for key in keys], dtype=np.intp)
        usual_mhz, top_mhz = _usual_and_top_mhz(evidence.problem)
        self.ratio = np.array([(c.point.sm_clock_mhz or usual_mhz) / top_mhz for c in space])
        # Where a clock is asked for under the driver's own limit, so that a cap spoils the trial.
        points = [each.point for each in space]
        is_locked = [p.sm_clock_mhz is not None and p.power_limit_w is None for p in points]
        self.is_locked = np.array(is_locked)
        problem = evidence.problem
        self._board = board_prior(problem.gpu, top_mhz, problem.calibration)
        self._outputs = _outputs(evidence.problem, self.cell)
        self._covariances = Covariances(self._cells)
        self._stages: dict[int, Hypotheses] = {}
        limits_w = [inf if p.power_limit_w is None else p.power_limit_w for p in points]
        self._asked_w = CAP_SHARE * np.array(limits_w)
        self._places = np.column_stack([np.log(self.ratio), _relative(self._asked_w)])
        self._bounds = Feasibility(evidence, self.cell, self._places, CellKernel(self._cells))
        self.reference = self._bounds.reference

    def forecast(self) -> Forecast:
        """Return what is expected now; at least one configuration must have been measured."""
        problem = self._evidence.problem
        valid = [each for each in self._evidence.observations if each.seen is not None]
        observed = self._observed(valid)
        belief = self._believed(valid, observed)
        rows = self._rows(valid)
        expected = belief.expected(rows)
        exponent = 1.0 + problem.objective.time_exponent
        quality, quality_u = self._bounds.quality(valid)
        log_cost = expected[:, 1] + exponent * expected[:, 0]
        lost = problem.objective.quality_exponent
        feasible = self._bounds.feasible(belief, rows, expected, valid)
        variance = (lost * quality_u) ** 2
        if lost:
            log_cost -= lost * quality
            feasible[np.isinf(log_cost)] = 0.0
        return Forecast(
            log_cost=log_cost,
            own_variance=np.zeros_like(variance) if problem.qualities else variance,
            quality_variance=variance if problem.qualities else np.zeros_like(variance),
            outputs=self._outputs,
            feasible=feasible,
            logs=expected,
            log_quality=quality,
            noise=belief.noise * float(np.mean(observed.u**2)) + belief.misfit**2,
            unexplained=(1.0 + exponent**2) * belief.misfit**2,
            is_capped=self._is_capped(expected, rows),
            belief=belief,
            rows=rows,
            time_exponent=exponent,
        )

    def _believed(self, valid: Sequence[Outcome], observed: Observed) -> Hypotheses:
        """Return what outcomes imply, by way of what the first of them implied.

        From the prior, many measurements are too far to be found by steps of a law made linear. The
        stages depend on nothing else, so that a search that is resumed believes what it believed.
        """
        before, size = None, _FIRST
        while size < len(valid):
            if size not in self._stages:
                self._stages[size] = self._hypotheses(self._observed(valid[:size]), before)
            before, size = self._stages[size], 2 * size
        return self._hypotheses(observed, before)

    def _hypotheses(self, observed: Observed, before: Hypotheses | None) -> Hypotheses:
        num_boards = int(observed.rows.board.max()) + 1
        return Hypotheses(self._covariances, observed, self._board, num_boards, before=before)

    def _is_capped(self, logs: Array, rows: Rows) -> NDArray[np.bool_]:
        known = {self.cell[self._evidence.problem.space.index(c)] for c in self._evidence.measured}
        margin = np.where(np.isin(self.cell, list(known)), _AT_LIMIT, _NEAR_LIMIT)
        found: NDArray[np.bool_] = logs[:, 1] >= np.log(rows.limit_w) - margin
        return self.is_locked & found

    def _observed(self, valid: Sequence[Outcome]) -> Observed:
        space = self._evidence.problem.space
        at = np.array([space.index(each.candidate) for each in valid], dtype=np.intp)
        figures = [each.seen for each in valid if each.seen is not None]
        boards = list(dict.fromkeys(f.board for f in figures))
        limits = [
            f.energy_j / f.time_s if each.capped and np.isinf(asked) else inf
            for each, f, asked in zip(valid, figures, self._asked_w[at], strict=True)
        ]
        rows = Rows(
            cell=self.cell[at],
            ratio=self.ratio[at],
            limit_w=np.array(limits),
            asked_w=self._asked_w[at],
            place=self._places[at],
            board=np.array([boards.index(f.board) for f in figures], dtype=np.intp),
            warmth_k=np.where(np.isinf(limits), excess_k(*heat(figures)), 0.0),
        )
        logs = [[log(f.time_s), log(f.energy_j / f.time_s)] for f in figures]
        u = [[f.time_u_s / f.time_s, f.energy_u_j / f.energy_j] for f in figures]
        return Observed(rows=rows, logs=np.array(logs), u=np.array(u))

    def _rows(self, valid: Sequence[Outcome]) -> Rows:
        space = self._evidence.problem.space
        default_w = self._default_limit_w(valid)
        return Rows(
            cell=self.cell,
            ratio=self.ratio,
            limit_w=np.where(np.isinf(self._asked_w), default_w, inf),
            asked_w=self._asked_w,
            place=self._places,
            board=np.zeros(len(space), dtype=np.intp),
            warmth_k=np.zeros(len(space)),
        )

    def _default_limit_w(self, valid: Sequence[Outcome]) -> float:
        """Return the mean power that the driver's own limit allows; infinite if nothing tells.

        Where more was drawn than by what a cap held, it held a phase, whose power no mean tells.
        """
        usual = [each for each in valid if each.candidate.point.power_limit_w is None]
        held_w = max((_power_w(each) for each in usual if each.capped), default=0.0)
        free_w = max((_power_w(each) for each in usual if not each.capped), default=0.0)
        if held_w > _ABOVE * free_w:
            return held_w
        gpu = self._evidence.problem.gpu
        return inf if gpu is None else max(free_w, CAP_SHARE * gpu.default_power_limit_w)


def _cell(space: SearchSpace, configuration: Configuration) -> Cell:
    """Return the knobs, and the memory clock, at which time and power follow other laws."""
    memory = configuration.point.mem_clock_mhz
    known = memory if "mem_clock_mhz" in space.axes else None
    return (*configuration.knobs, ("mem_clock_mhz", known))


def _relative(asked_w: Array) -> Array:
    """Return logarithms of the limits that are asked for over the highest; 0 where none is."""
    asked = np.isfinite(asked_w)
    return np.where(asked, np.log(asked_w / np.max(asked_w, initial=1.0, where=asked)), 0.0)


def _usual_and_top_mhz(problem: Problem) -> tuple[int, int]:
    """Return the driver's own clock, and the highest of all, with which others are compared."""
    asked = [c.point.sm_clock_mhz for c in problem.space if c.point.sm_clock_mhz is not None]
    usual = max(asked, default=1) if problem.usual_mhz is None else problem.usual_mhz
    return usual, max([usual, *asked])


def _outputs(problem: Problem, cell: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return numbers of the outputs: those of the cells where nothing is known of their quality."""
    if not problem.qualities:
        return cell
    names = [problem.qualities[each.knobs].outputs for each in problem.space]
    return np.unique(names, return_inverse=True)[1].astype(np.intp)


def _power_w(outcome: Outcome) -> float:
    figures = outcome.seen
    return inf if figures is None else figures.energy_j / figures.time_s
