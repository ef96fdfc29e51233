"""By how much a configuration is expected to push out the front of energy, time and quality.

What a front dominates is measured by its hypervolume. The expected improvement of it has a closed
form for two independent normal quantities: a sum over the strips between the points of the front
(Emmerich, Deutz, Klinkenberg, "Hypervolume-based expected improvement: Monotonicity properties and
exact computation", IEEE Congress on Evolutionary Computation 2011; here each strip is a product of
two partial moments). The third one, what is lost of the quality, has few values, which are known:
the volume is a stack of slabs between them, in each of which those points count that lose no more.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_LEAST_U = 1e-12


def expected_growth(mean: Array, u: Array, loss: Array, front: Array, reference: Array) -> Array:
    """Return by how much each candidate is expected to add to the hypervolume of a front.

    Args:
        mean: Expected costs, lower is better; shape ``(n, 2)``.
        u: Their standard deviations; shape ``(n, 2)``.
        loss: The third cost, which is known; shape ``(n,)``.
        front: What is dominated already; shape ``(m, 3)``, m may be 0.
        reference: Costs beyond which nothing counts; shape ``(3,)``.

    Returns:
        Shape ``(n,)``, at least 0.
    """
    levels = np.unique(np.concatenate([loss, front[:, 2]]))
    levels = levels[levels < reference[2]]
    growth = np.zeros(len(mean))
    for level, above in zip(levels, [*levels[1:], reference[2]], strict=True):
        within = loss <= level
        lower = front[front[:, 2] <= level, :2]
        growth[within] += (above - level) * _area_growth(mean[within], u[within], lower, reference)
    return growth


def front_places(costs: Array) -> Index:
    """Return the places of what nothing beats in all three costs; shape of ``costs`` ``(n, 3)``."""
    found = [
        within[_stairs(costs[within, :2])]
        for level in np.unique(costs[:, 2])
        for within in (np.flatnonzero(costs[:, 2] <= level),)
    ]
    return np.unique(np.concatenate(found))


def _area_growth(mean: Array, u: Array, front: Array, reference: Array) -> Array:
    """Return by how much the area that is dominated is expected to grow."""
    inside = front[(front < reference[:2]).all(axis=1)]
    steps = inside[_stairs(inside)]
    rights = np.append(steps[:, 0], reference[0])
    tops = np.insert(steps[:, 1], 0, reference[1])
    reach = _mean_below(rights, mean[:, :1], u[:, :1])
    widths = np.diff(reach, axis=1, prepend=0.0)
    return np.asarray(np.sum(widths * _mean_below(tops, mean[:, 1:], u[:, 1:]), axis=1))


def _mean_below(bound: Array, mean: Array, u: Array) -> Array:
    """Return the mean of by how much a normal quantity lies below ``bound``, else 0."""
    from scipy.special import ndtr  # type: ignore[import-untyped]  # printing does without

    spread = np.maximum(u, _LEAST_U)
    z = (bound - mean) / spread
    density = np.exp(-np.minimum(z**2, 1e3) / 2) / np.sqrt(2 * np.pi)
    return np.asarray((bound - mean) * ndtr(z) + spread * density)


def _stairs(points: Array) -> Index:
    """Return the places of the points that no other beats in both, by the first cost."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    lowest = np.minimum.accumulate(points[order, 1])
    lower: Index = np.flatnonzero(np.diff(lowest, prepend=np.inf) < 0)
    return np.asarray(order[lower])
