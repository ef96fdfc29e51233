"""Beliefs under several hypotheses, taken together by how likely each makes the measurements.

One normal distribution around the most likely parameters cannot say that time may be the host's
or the memory's, which look alike at high clocks and not at low ones. So a belief is formed under
each hypothesis, and their mixture is passed on by its mean and covariance: for each hypothesis
there is one more unknown, along which predictions move from the mean to its own.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag  # type: ignore[import-untyped]

from joulelab.search.model.belief import Belief, Expected, Observed, Rows
from joulelab.search.model.priors import BOUND, BoardPrior
from joulelab.search.space import Cell

Array = NDArray[np.float64]


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
