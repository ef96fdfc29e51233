"""What a cell has whatever its clock: the quality of its outputs, the memory that it needs."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve  # type: ignore[import-untyped]

from joulelab.searching.model.cells import CellKernel, Spread

Array = NDArray[np.float64]

QUALITY = Spread(shared=0.02, named=0.05, number=0.02, together=0.02, rest=0.01)
"""Of the logarithm of what is kept of the quality; formats differ by some percent."""
MEMORY = Spread(shared=1.0, named=0.5, number=1.0, together=0.2, rest=0.1)
"""Of the logarithm of the memory in use."""
_LEAST_U = 1e-3


def field(
    kernel: CellKernel, spread: Spread, cell: NDArray[np.intp], logs: Array, u: Array
) -> tuple[Array, Array]:
    """Return what is expected of every cell's logarithm, and its standard deviation.

    Before anything is known it is expected to be 0.

    Args:
        kernel: What cells have in common.
        spread: By how much they differ.
        cell: Numbers of the cells that were measured; shape ``(n,)``.
        logs: What was found there.
        u: Its standard uncertainty.
    """
    prior = kernel.covariance(spread)
    if not len(cell):
        return np.zeros(len(prior)), np.sqrt(np.diag(prior))
    across = prior[:, cell]
    noise = np.diag(np.maximum(u, _LEAST_U) ** 2)
    solve = cho_factor(across[cell] + noise)
    variance = np.diag(prior) - np.einsum("ij,ji->i", across, cho_solve(solve, across.T))
    return across @ cho_solve(solve, logs), np.sqrt(np.maximum(variance, 0.0))
