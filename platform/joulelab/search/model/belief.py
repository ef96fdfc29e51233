"""What measured configurations tell of the others: a law of physics under a Gaussian prior.

Parameters of the law are normal, those of cells with the covariance of :mod:`cells`. Their most
likely values are found by Gauss-Newton steps, and their covariance is that of the law made linear
there (Laplace's approximation). All is written in the space of the data, which is the smaller one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve  # type: ignore[import-untyped]

from joulelab.search.model.cells import Likeness, Spread
from joulelab.search.model.law import BOARD_PARAMETERS, CELL_PARAMETERS, log_time_power, slopes
from joulelab.search.model.priors import BOUND, BoardPrior
from joulelab.search.model.warmth import POWER_PER_K, POWER_PER_K_SD
from joulelab.search.space import Cell

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NUM_CELL, _NUM_BOARD = len(CELL_PARAMETERS), len(BOARD_PARAMETERS)

_SPREADS = (
    Spread(shared=1.0, named=1.0, number=1.5, together=0.5, rest=0.05),
    Spread(shared=1.5, named=0.7, number=1.5, together=0.5, rest=0.1),
    Spread(shared=1.0, named=0.5, number=0.5, together=0.3, rest=0.1),
    Spread(shared=0.5, named=0.1, number=0.2, together=0.1, rest=0.03),
    Spread(shared=0.6, named=0.5, number=0.7, together=0.3, rest=0.05),
    Spread(shared=0.6, named=0.5, number=0.7, together=0.3, rest=0.05),
)
"""Of the parameters of a cell: time, working, memory_time, clocked, pipes, memory."""
_CELL_MEAN = (0.0, 0.0, -0.4, np.log(0.22), np.log(0.28), np.log(0.15))
"""Their expectation, working by hypothesis; powers are over that of the first measurement."""
_OFFSET_SD = (0.01, 0.04)
"""By how much time and power of boards of one kind differ (8 V100: 4 % of idle power)."""
_MISFIT = 0.004
"""What the law misses of time and of power, relative, even of a cell that is well known."""
_NOISE_WORTH = 12.0
"""How many measurements the stated uncertainties are worth against what the residuals show."""
_NUM_STEPS, _NUM_NOISE_ROUNDS = 12, 2
_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03)
_ENOUGH = 1e-3
"""By how much a step must lower the misfit, in which an error of one deviation counts 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Configurations as the law sees them.

    Attributes:
        cell: Number of the cell; shape ``(n,)``.
        ratio: Requested clock over the highest.
        limit_w: Power at which the clock falls; infinite where it never does.
        board: Number of the board; 0 is the one that others are compared with.
        warmth_k: By how much the board was warmer than such a power makes it.
    """

    cell: Index
    ratio: Array
    limit_w: Array
    board: Index
    warmth_k: Array

    def at(self, places: Index) -> "Rows":
        """Return some of the rows."""
        return Rows(
            cell=self.cell[places],
            ratio=self.ratio[places],
            limit_w=self.limit_w[places],
            board=self.board[places],
            warmth_k=self.warmth_k[places],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What was measured at some rows.

    Attributes:
        rows: Where.
        logs: Logarithms of time and power; shape ``(n, 2)``.
        u: Their stated standard uncertainties; shape ``(n, 2)``.
    """

    rows: Rows
    logs: Array
    u: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """What is expected of some rows.

    Attributes:
        logs: Logarithms of time and power; shape ``(n, 2)``.
        slopes: Their derivatives by what is unknown; shape ``(n, 2, p)``.
    """

    logs: Array
    slopes: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellBelief:
    """The parameters of a cell, and those of the board.

    Attributes:
        likeliest: Their most likely values; shape ``(11,)``.
        prior: Covariance before anything was measured; shape ``(11, 11)``.
        covariance: What is left of it.
        measured: Where the cell was measured.
        variance: Of a logarithm of time or power around the law.
    """

    likeliest: Array
    prior: Array
    covariance: Array
    measured: Rows
    variance: float


class Belief:
    """Parameters of the law, given measurements.

    Args:
        cells: All cells of the space.
        observed: What was measured.
        board: What is expected of the board.
        num_boards: How many boards there are.
        working: Expected log-odds of the share of time in which the device works.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        observed: Observed,
        board: BoardPrior,
        num_boards: int = 1,
        working: float = BOUND[0],
    ) -> None:
        likeness = Likeness(cells)
        self._num_cells, self._observed = len(cells), observed
        self._mean = self._prior_mean(observed, board, num_boards, working)
        self._prior = block_diag(
            *(likeness.covariance(spread) for spread in _SPREADS),
            np.diag(np.square(board.sd)),
            *[np.diag(np.square(_OFFSET_SD))] * (num_boards - 1),
            POWER_PER_K_SD**2,
        )
        self.noise = 1.0
        weights = np.zeros_like(self._mean)
        for _ in range(_NUM_NOISE_ROUNDS):
            variance = self._variance(observed)
            weights, gain = self._most_likely(observed, variance, weights)
            self._parameters = self._mean + self._prior @ weights
            self.noise = self._scaled_noise(observed, variance, gain)
        slope, error = self._linear(observed, self._parameters)
        blocks = slope @ self._prior
        solve = cho_factor(blocks @ slope.T + np.diag(self._variance(observed)))
        self.covariance: Array = self._prior - blocks.T @ cho_solve(solve, blocks)
        self.log_evidence = _log_density(error + slope @ (self._parameters - self._mean), solve)

    def expected(self, rows: Rows) -> Expected:
        """Return what is expected of ``rows``."""
        local = self._local(rows, self._parameters)
        logs = log_time_power(local, rows.ratio, rows.limit_w)
        design = self._design(rows, slopes(local, rows.ratio, rows.limit_w))
        return Expected(logs=logs + self._offsets(rows, self._parameters), slopes=design)

    def of_cell(self, cell: int) -> "CellBelief":
        """Return what is believed of a cell by itself, on the first board."""
        of_cell = np.arange(_NUM_CELL) * self._num_cells + cell
        own = np.concatenate([of_cell, _NUM_CELL * self._num_cells + np.arange(_NUM_BOARD)])
        rows = self._observed.rows
        return CellBelief(
            likeliest=self._parameters[own],
            prior=self._prior[np.ix_(own, own)],
            covariance=self.covariance[np.ix_(own, own)],
            measured=rows.at(np.flatnonzero((rows.cell == cell) & (rows.board == 0))),
            variance=_MISFIT**2,
        )

    def misfit(self) -> float:
        """Return the standard deviation of time and of power around the law, relative."""
        return _MISFIT * float(np.sqrt(self.noise))

    def _prior_mean(
        self, observed: Observed, prior: BoardPrior, num_boards: int, working: float
    ) -> Array:
        first_log_time, first_log_power = observed.logs[0]
        powers = np.array([0, 0, 0, 1, 1, 1]) * first_log_power
        cell = np.array(_CELL_MEAN) + powers
        cell[:2] += first_log_time, working
        board = np.array(prior.mean)
        if not prior.is_absolute:
            board[0] += first_log_power
        offsets = np.zeros(2 * (num_boards - 1))
        return np.concatenate([np.repeat(cell, self._num_cells), board, offsets, [POWER_PER_K]])

    def _variance(self, observed: Observed) -> Array:
        return ((observed.u**2 + _MISFIT**2) * self.noise).ravel()

    def _most_likely(
        self, observed: Observed, variance: Array, weights: Array
    ) -> tuple[Array, Array]:
        """Return weights, and the gain: by how much predictions follow the data.

        The prior's covariance times the weights is by how much parameters differ from its mean.
        """
        prior, least = self._prior, np.inf
        for _ in range(_NUM_STEPS):
            parameters = self._mean + prior @ weights
            slope, error = self._linear(observed, parameters)
            shared = slope @ prior @ slope.T
            solve = cho_factor(shared + np.diag(variance))
            wanted = slope.T @ cho_solve(solve, error + slope @ (parameters - self._mean))
            weights, found = self._stepped(observed, variance, weights, wanted, least)
            if least - found < _ENOUGH:
                break
            least = found
        return weights, np.asarray(cho_solve(solve, shared))

    def _stepped(
        self, observed: Observed, variance: Array, weights: Array, wanted: Array, least: float
    ) -> tuple[Array, float]:
        """Return weights towards ``wanted`` that lower the misfit, and the misfit there."""
        for length in _LENGTHS:
            tried = weights + length * (wanted - weights)
            moved = self._prior @ tried
            with np.errstate(over="ignore", invalid="ignore"):
                error = observed.logs - self._predicted(observed.rows, self._mean + moved)
                found = float(np.sum(error.ravel() ** 2 / variance) + tried @ moved)
            if found < least:
                return tried, found
        return weights, least

    def _scaled_noise(self, observed: Observed, variance: Array, gain: Array) -> float:
        error = (observed.logs - self._predicted(observed.rows, self._parameters)).ravel()
        free = len(error) - float(np.trace(gain))
        shown = float(np.sum(error**2 / (variance / self.noise)))
        return max(1.0, (_NOISE_WORTH + shown) / (_NOISE_WORTH + free))

    def _linear(self, observed: Observed, parameters: Array) -> tuple[Array, Array]:
        """Return the derivatives of all logarithms, shape ``(2 n, p)``, and what they miss."""
        rows = observed.rows
        local = self._local(rows, parameters)
        design = self._design(rows, slopes(local, rows.ratio, rows.limit_w))
        error = observed.logs - self._predicted(rows, parameters)
        return design.reshape(2 * len(rows.cell), -1), error.ravel()

    def _predicted(self, rows: Rows, parameters: Array) -> Array:
        local = self._local(rows, parameters)
        logs = log_time_power(local, rows.ratio, rows.limit_w)
        return logs + self._offsets(rows, parameters)

    def _local(self, rows: Rows, parameters: Array) -> Array:
        """Return the parameters of each row's cell and board, shape ``(n, 11)``."""
        num = self._num_cells
        of_cells = parameters[: _NUM_CELL * num].reshape(_NUM_CELL, num).T[rows.cell]
        of_board = parameters[_NUM_CELL * num : _NUM_CELL * num + _NUM_BOARD]
        return np.column_stack([of_cells, np.broadcast_to(of_board, (len(of_cells), _NUM_BOARD))])

    def _offsets(self, rows: Rows, parameters: Array) -> Array:
        start = _NUM_CELL * self._num_cells + _NUM_BOARD
        offsets = np.concatenate([np.zeros(2), parameters[start:-1]]).reshape(-1, 2)[rows.board]
        offsets[:, 1] += parameters[-1] * rows.warmth_k
        return np.asarray(offsets)

    def _design(self, rows: Rows, local: Array) -> Array:
        """Return derivatives by all parameters from those by the parameters of each row."""
        num, n = self._num_cells, len(rows.cell)
        design = np.zeros((n, 2, len(self._mean)))
        every = np.arange(n)
        for number in range(_NUM_CELL):
            design[every, :, number * num + rows.cell] = local[:, :, number]
        start = _NUM_CELL * num
        design[:, :, start : start + _NUM_BOARD] = local[:, :, _NUM_CELL:]
        other = np.flatnonzero(rows.board > 0)
        for side in (0, 1):
            column = start + _NUM_BOARD + 2 * (rows.board[other] - 1) + side
            design[other, side, column] = 1.0
        design[:, 1, -1] = rows.warmth_k
        return design


def _log_density(error: Array, solve: tuple[Array, bool]) -> float:
    """Return the logarithm of a normal density at ``error``, less a constant.

    Args:
        error: Distance from the mean.
        solve: The covariance's Cholesky factor.
    """
    return float(-error @ cho_solve(solve, error) / 2 - np.sum(np.log(np.diag(solve[0]))))
