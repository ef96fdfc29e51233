"""Beliefs under several hypotheses, taken together by how likely each makes the measurements.

One normal distribution around the most likely parameters cannot say that time may be the host's
or the memory's, which look alike at high clocks and not at low ones. So a belief is formed under
each hypothesis, and their mixture is passed on by its mean and covariance: for each hypothesis
there is one more unknown, along which predictions move from the mean to its own.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag  # type: ignore[import-untyped]
from scipy.stats import norm, qmc  # type: ignore[import-untyped]

from joulelab.search.model.belief import Belief, Expected, Observed, Rows
from joulelab.search.model.draws import drawn
from joulelab.search.model.law import NUM_PARAMETERS
from joulelab.search.model.priors import BOUND, BoardPrior
from joulelab.search.space import Cell

Array = NDArray[np.float64]

_LOG2_DRAWS = 8


class Hypotheses:
    """What measured configurations tell of the others, whatever bounds them.

    Args:
        cells: All cells of the space.
        observed: What was measured.
        board: What is expected of the board.
        num_boards: How many boards there are.
    """

    def __init__(
        self, cells: Sequence[Cell], observed: Observed, board: BoardPrior, num_boards: int = 1
    ) -> None:
        self._beliefs = [Belief(cells, observed, board, num_boards, bound) for bound in BOUND]
        support = np.array([belief.log_evidence for belief in self._beliefs])
        weights = np.exp(support - support.max())
        self.weights: Array = weights / weights.sum()
        likeliest = self._beliefs[int(np.argmax(self.weights))]
        self.noise = likeliest.noise
        self.misfit = likeliest.misfit()
        own = [belief.covariance for belief in self._beliefs]
        self.covariance: Array = block_diag(*own, np.eye(len(own)))

    def expected(self, rows: Rows) -> Expected:
        """Return what is expected of ``rows``."""
        found = [belief.expected(rows) for belief in self._beliefs]
        logs = np.tensordot(self.weights, np.stack([each.logs for each in found]), axes=1)
        share = np.sqrt(self.weights)
        own = [root * each.slopes for root, each in zip(share, found, strict=True)]
        apart = [root * (each.logs - logs) for root, each in zip(share, found, strict=True)]
        return Expected(logs=logs, slopes=np.concatenate([*own, np.stack(apart, axis=2)], axis=2))

    def drawn(self, rows: Rows) -> Array:
        """Return logarithms of time and power of ``rows`` under draws of what is unknown.

        A hypothesis is drawn from as often as it is likely.

        Args:
            rows: Configurations of one cell, on the first board.

        Returns:
            Shape ``(draws, n, 2)``.
        """
        normals = _normals()
        ends = np.round(np.cumsum(self.weights) * len(normals)).astype(np.intp)
        parts = zip(self._beliefs, np.split(normals, ends[:-1]), strict=True)
        cell = int(rows.cell[0])
        found = [drawn(belief.of_cell(cell), rows, part) for belief, part in parts if len(part)]
        return np.concatenate(found)


@cache
def _normals() -> Array:
    """Return points that fill a standard normal distribution evenly; shape ``(draws, 11)``."""
    points: Array = norm.ppf(qmc.Sobol(NUM_PARAMETERS, seed=0).random_base2(_LOG2_DRAWS))
    return points
