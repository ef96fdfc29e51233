"""The unknown parameters of the law: where they are, and what time and power they make."""

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from joulelab.hardware.board_facts import BoardFacts
from joulelab.hardware.spec import GpuSpec
from joulelab.searching.base import BOARD_POWER_SD, BOARD_TIME_SD
from joulelab.searching.model.covariances import Covariances
from joulelab.searching.model.law import (
    BOARD_PARAMETERS,
    CELL_PARAMETERS,
    Observed,
    Rows,
    clock,
    log_time_power,
    slopes,
)

Array = NDArray[np.float64]

POWER_PER_K: Final = 0.002
"""Relative growth of power by temperature. An A100 under load grew by 2.4 % while its die warmed by
some 9 K, boards of the catalogue by 0.05 to 0.1 % per kelvin."""
POWER_PER_K_SD: Final = 0.0015


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPrior:
    """What is expected of the parameters of a board; all are logarithms."""

    # Expectation of constant power, knee, ridge, voltage, bend and steepness (see law).
    mean: tuple[float, float, float, float, float, float]
    sd: tuple[float, float, float, float, float, float]  # standard deviations
    is_absolute: bool  # whether constant power is in watts, rather than over the first measurement
    leakage_w_per_k: float | None = None  # that was measured of the board; None if it was not

    def per_kelvin(self, power_w: float) -> tuple[float, float]:
        """Return by how much power of about ``power_w`` grows by a kelvin, and how sure that is."""
        if self.leakage_w_per_k is None:
            return POWER_PER_K, POWER_PER_K_SD
        growth = self.leakage_w_per_k / power_w
        return growth, _LEAKAGE_SD * growth


_LOG_STEEPNESS, _LOG_STEEPNESS_SD = log(8.0), 0.6
"""Of how a power limit acts; training on a V100 and an RTX 6000 shows 5 to 8."""

ANY_BOARD = BoardPrior(
    mean=(log(0.35), log(0.6), log(0.68), log(0.35), log(1.1), _LOG_STEEPNESS),
    sd=(0.4, 0.25, 0.12, 0.35, 0.25, _LOG_STEEPNESS_SD),
    is_absolute=False,
)
"""What the catalogue's GPUs scatter about."""

_KNOWN_SD = (0.2, 0.15, 0.08, 0.2, 0.15, _LOG_STEEPNESS_SD)
"""By how much a board may differ from what the catalogue says of its kind; estimates."""
_CALIBRATED_SD = (0.12, 0.09, 0.048, 0.12, 0.09, _LOG_STEEPNESS_SD)
"""What calibrating leaves of that. A board is known closer (0.25), but programs differ from the two
loads: of 18 searches of simulated A100s more ended within 0.2 % of the least EDP so."""
_LEAKAGE_SD = 0.5  # relative, of leakage under load, where it was measured of a board that waited
_LATEST_RIDGE, _LEAST_GAIN, _LEAST_BEND = 0.97, 0.02, 0.3

BOUND = (2.0, -4.0)
"""Expected log-odds of the share of time in which the device works, estimates: where the device
bounds, and where the host does. Time that no clock changes looks alike where memory bounds, until
the clock falls below the memory's knee."""


def board_prior(
    spec: GpuSpec | None, top_mhz: int, calibration: BoardFacts | None = None
) -> BoardPrior:
    """Return what the catalogue says of a GPU, or what is common to all where it lacks it.

    ``top_mhz`` is the clock that others are compared with; ``calibration`` what was measured of a
    board, which ``spec`` then has in it.
    """
    if spec is None:
        return ANY_BOARD
    ridge_mhz = min(spec.voltage.ridge_mhz, _LATEST_RIDGE * top_mhz)
    gain = max(spec.voltage.at(top_mhz) - 1.0, _LEAST_GAIN)
    half = max(spec.voltage.at((ridge_mhz + top_mhz) / 2) - 1.0, _LEAST_GAIN / 4)
    return BoardPrior(
        mean=(
            log(spec.power.constant_w),
            log(spec.timing.memory_knee_mhz / top_mhz),
            log(ridge_mhz / top_mhz),
            log(gain),
            log(max(log(gain / half, 2), _LEAST_BEND)),
            _LOG_STEEPNESS,
        ),
        sd=_CALIBRATED_SD if calibration and calibration.has_curve else _KNOWN_SD,
        is_absolute=True,
        leakage_w_per_k=calibration.value("leakage_w_per_k") if calibration else None,
    )


_NUM_CELL, _NUM_BOARD = len(CELL_PARAMETERS), len(BOARD_PARAMETERS)
_CELL_MEAN = (0.0, 0.0, -0.4, np.log(0.22), np.log(0.28), np.log(0.15), 0.05)
"""Their expectation, working by hypothesis; powers are over that of the first measurement."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weights:
    """Where parameters are, as weights of the prior's covariance.

    ``of_cell`` are of those of each measured cell, of shape ``(m, 7)``; ``shared`` of what is
    common to all, of shape ``(q,)``.
    """

    of_cell: Array
    shared: Array

    def towards(self, wanted: "Weights", length: float) -> "Weights":
        """Return weights that are a share of the way to others."""
        return Weights(
            of_cell=self.of_cell + length * (wanted.of_cell - self.of_cell),
            shared=self.shared + length * (wanted.shared - self.shared),
        )


class Parameters:
    """The parameters of all cells, and what is common to all, under their prior.

    ``prior`` is what is expected of the board; ``working`` the expected log-odds of the share of
    time in which the device works.
    """

    def __init__(
        self,
        covariances: Covariances,
        observed: Observed,
        prior: BoardPrior,
        num_boards: int,
        working: float,
    ) -> None:
        self._asked: tuple[Rows, Weights] | None = None
        self._clock: Array = np.zeros(0)
        self._num, self._across = len(observed.logs), covariances.of_cells[:, :, observed.rows.cell]
        first_log_time, first_log_power = observed.logs[0]
        self._cell_mean = np.array(_CELL_MEAN) + np.array([0, 0, 0, 1, 1, 1, 0]) * first_log_power
        self._cell_mean[:2] += first_log_time, working
        board = np.array(prior.mean)
        if not prior.is_absolute:
            board[0] += first_log_power
        offsets, num = (
            np.tile((BOARD_TIME_SD, BOARD_POWER_SD), num_boards - 1),
            2 * (num_boards - 1),
        )
        per_k, per_k_sd = prior.per_kelvin(float(np.exp(first_log_power)))
        self.shared_mean = np.concatenate([board, np.zeros(num), [per_k]])
        self.shared_variance = np.square(np.concatenate([prior.sd, offsets, [per_k_sd]]))

    def start(self) -> Weights:
        """Return weights of the prior mean."""
        return Weights(
            of_cell=np.zeros((self._num, _NUM_CELL)), shared=np.zeros_like(self.shared_mean)
        )

    def grown(self, weights: Weights) -> Weights:
        """Return what fewer measurements, the first of these, made likely; boards may be new."""
        more = self._num - len(weights.of_cell)
        boards = len(self.shared_mean) - len(weights.shared)
        return Weights(
            of_cell=np.vstack([weights.of_cell, np.zeros((more, _NUM_CELL))]),
            shared=np.insert(weights.shared, [-1] * boards, 0.0),
        )

    def shared(self, weights: Weights) -> Array:
        """Return what is common to all, the board's parameters first; shape ``(q,)``."""
        return np.asarray(self.shared_mean + self.shared_variance * weights.shared)

    def of_rows(self, rows: Rows, weights: Weights) -> tuple[Array, Array]:
        """Return the parameters of each row's cell and board, shape ``(n, 13)``, and the shared."""
        of_cells = self.of_cells(rows.cell, weights)
        shared = self.shared(weights)
        board = np.broadcast_to(shared[:_NUM_BOARD], (len(rows.cell), _NUM_BOARD))
        return np.hstack([of_cells, board]), shared

    def of_cells(self, cell: NDArray[np.intp], weights: Weights) -> Array:
        """Return the parameters of cells; shape ``(n, 7)``."""
        return np.asarray(self._cell_mean + self.moved(weights)[cell])

    def moved(self, weights: Weights) -> Array:
        """Return by how much the parameters of all cells are off their mean; ``(cells, 7)``."""
        return np.asarray((self._across @ weights.of_cell.T[:, :, None])[:, :, 0].T)

    def of_boards(self, rows: Rows) -> Array:
        """Return the covariance of time and power, one after the other, by what is linear in them.

        That is boards' offsets and how warm they were; shape ``(2 n, 2 n)``.
        """
        linear = self._linear(rows).reshape(2 * len(rows.cell), -1)
        return np.asarray((linear * self.shared_variance[_NUM_BOARD:]) @ linear.T)

    def logs(self, rows: Rows, weights: Weights) -> Array:
        """Return logarithms of time and power by the law; shape ``(n, 2)``."""
        local, shared = self.of_rows(rows, weights)
        offsets = np.concatenate([np.zeros(2), shared[_NUM_BOARD:-1]]).reshape(-1, 2)[rows.board]
        offsets[:, 1] += shared[-1] * rows.warmth_k
        at = (local, rows.ratio, rows.limit_w, rows.asked_w)
        return np.asarray(log_time_power(*at, self._held(rows, weights, local)) + offsets)

    def design(self, rows: Rows, weights: Weights) -> tuple[Array, Array]:
        """Return derivatives of both logarithms by parameters of the cell, and by what is shared.

        Their shapes are ``(n, 2, 7)`` and ``(n, 2, q)``.
        """
        local, _ = self.of_rows(rows, weights)
        at = (local, rows.ratio, rows.limit_w, rows.asked_w)
        by_cell, by_board = np.split(slopes(*at, self._held(rows, weights, local)), [_NUM_CELL], 2)
        return by_cell, np.concatenate([by_board, self._linear(rows)], axis=2)

    def _linear(self, rows: Rows) -> Array:
        """Return derivatives by boards' offsets and how power grows by warmth."""
        found = np.zeros((len(rows.cell), 2, len(self.shared_mean) - _NUM_BOARD))
        other = np.flatnonzero(rows.board > 0)
        for side in (0, 1):
            found[other, side, 2 * (rows.board[other] - 1) + side] = 1.0
        found[:, 1, -1] = rows.warmth_k
        return found

    def _held(self, rows: Rows, weights: Weights, local: Array) -> Array:
        """Return the clocks that limits leave; the slopes are asked for where the logs were."""
        if self._asked != (rows, weights):
            self._asked = rows, weights
            self._clock = clock(local, rows.ratio, rows.limit_w, rows.asked_w)
        return self._clock
