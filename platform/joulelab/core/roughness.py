"""Scatter of single observations about a smooth curve, where nothing was repeated.

Each observation is compared with the line through its two neighbours. What a curve bends between
them counts as scatter, so that few observations of a curve with a knee scatter more than they do,
never less (Gasser, Sroka, Jennen-Steinmetz, "Residual variance and residual pattern in nonlinear
regression", Biometrika 73, 1986).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from joulelab.core.additive import Array

LEAST_TRIPLES = 6
"""Fewer say too little of a variance: three degrees of freedom are left."""
DOF_PER_TRIPLE = 18 / 35
"""Neighbouring triples share observations: the estimate varies as that of so many (section 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roughness:
    """Variance of an observation about a smooth curve."""

    variance: float  # estimate of it, in squared units of the observations
    dof: int  # degrees of freedom that the estimate is worth


def roughness(curves: Iterable[tuple[Array, Array]]) -> Roughness | None:
    """Estimate the variance that observations along some curves have in common.

    Args:
        curves: Places and observations of each, both of shape ``(n,)``; no place twice.

    Returns:
        ``None`` where the curves have fewer than six observations between two others.
    """
    squared = np.concatenate([np.empty(0), *(_squared(x, y) for x, y in curves)])
    if squared.size < LEAST_TRIPLES:
        return None
    dof = int(DOF_PER_TRIPLE * squared.size)
    return Roughness(variance=float(squared.mean()), dof=dof)


def _squared(x: Array, y: Array) -> Array:
    """Squared distances from the neighbours' line, of the variance of one observation each."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    before = (x[2:] - x[1:-1]) / (x[2:] - x[:-2])
    miss = before * y[:-2] + (1 - before) * y[2:] - y[1:-1]
    return np.asarray(miss**2 / (before**2 + (1 - before) ** 2 + 1))
