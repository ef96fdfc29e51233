"""Trade-offs: the points that no other point beats in everything."""

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError


def non_dominated(costs: NDArray[np.float64], resolution: float = 0.0) -> NDArray[np.bool_]:
    """Return which points are on the Pareto front.

    A point is dominated if another one costs no more in everything and less in something.
    Equal points do not dominate each other.

    Args:
        costs: Lower is better; shape ``(n, d)``, finite.
        resolution: Share by which positive costs must differ to count as different.

    Returns:
        Shape ``(n,)``.

    Raises:
        ConfigError: If ``costs`` has another shape or is not finite.
    """
    if costs.ndim != 2 or not np.isfinite(costs).all():
        raise ConfigError(f"costs must be finite, of shape (n, d), got shape {costs.shape}.")
    raised = costs * (1 + resolution)
    no_more = (costs[:, None, :] <= raised[None, :, :]).all(axis=2)
    less = (raised[:, None, :] < costs[None, :, :]).any(axis=2)
    dominated: NDArray[np.bool_] = np.any(no_more & less, axis=0)
    return np.logical_not(dominated)
