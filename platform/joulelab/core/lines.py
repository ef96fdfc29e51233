"""Lines of clocks, or of limits, and how observations scatter about smooth curves along them.

Recordings state no uncertainty of their own. Where nothing was repeated, each is compared with the
line through its two neighbours. What a curve bends between them counts as scatter, so that few
observations of a curve with a knee scatter more than they do, never less (Gasser, Sroka,
Jennen-Steinmetz, "Residual variance and residual pattern in nonlinear regression", Biometrika 73,
1986).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from joulelab.core.additive import AdditiveFit, Array
from joulelab.core.configuration import Configuration

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
    squared = np.concatenate([np.empty(0), *((_differences(x) @ y) ** 2 for x, y in curves)])
    if squared.size < LEAST_TRIPLES:
        return None
    dof = int(DOF_PER_TRIPLE * squared.size)
    return Roughness(variance=float(squared.mean()), dof=dof)


def _differences(at: Array) -> Array:
    """Return what makes differences from the line through both neighbours, of unit variance.

    ``at`` are places in any order, shape ``(n,)``; the result has shape ``(n - 2, n)``.
    """
    order = np.argsort(at)
    low, middle, high = order[:-2], order[1:-1], order[2:]
    before = (at[high] - at[middle]) / (at[high] - at[low])
    unit = np.sqrt(before**2 + (1 - before) ** 2 + 1)
    rows, each = np.zeros((len(middle), len(at))), np.arange(len(middle))
    rows[each, low], rows[each, middle], rows[each, high] = before, -1.0, 1 - before
    return np.asarray(rows / unit[:, None])


Lines = Sequence[Sequence[tuple[str, float]]]
"""Names that differ in one setting, each with the logarithm of its value there."""


def lines_of(configurations: Mapping[str, Configuration]) -> Lines:
    """Return the lines of clocks, or of limits, along which configurations lie, by their names.

    Along logarithms times and energies bend least.
    """
    lines: dict[object, list[tuple[str, float]]] = {}
    for name, each in configurations.items():
        point, rest = each.point, (each.workload, each.knobs, each.point.mem_clock_mhz)
        if point.sm_clock_mhz is not None:
            line = lines.setdefault((*rest, point.power_limit_w), [])
            line.append((name, log(point.sm_clock_mhz)))
        elif point.power_limit_w is not None:
            lines.setdefault(rest, []).append((name, log(point.power_limit_w)))
    return list(lines.values())


def neighbour_differences(lines: Lines, names: Sequence[str]) -> Array:
    """Return differences as above of all lines, of what has ``names``; ``(m, len(names))``."""
    found = [np.empty((0, len(names)))]
    for line in lines:
        own = _differences(np.array([at for _, at in line]))
        placed = np.zeros((len(own), len(names)))
        placed[:, [names.index(name) for name, _ in line]] = own
        found.append(placed)
    return np.vstack(found)


def scatter_of(fit: AdditiveFit, lines: Lines) -> Roughness | None:
    """Return how measurements scatter: between repeats, or else along ``lines``.

    Returns:
        ``None`` where they neither repeat nor lie along a line: nothing tells.
    """
    if fit.residual_sd is not None:
        return Roughness(variance=fit.residual_sd**2, dof=fit.dof)
    value = dict(zip(fit.configurations, fit.estimate.tolist(), strict=True))
    return roughness(
        (np.array([at for _, at in line]), np.array([value[name] for name, _ in line]))
        for line in lines
    )


def with_scatter(fit: AdditiveFit, found: Roughness | None) -> AdditiveFit:
    """Return a fit of what was not repeated with how such scatters; open where nothing tells."""
    if found is None:
        return replace(fit, is_open=True)
    return replace(
        fit,
        scatter=found.variance * np.eye(len(fit.estimate)),
        dof=found.dof,
        residual_sd=sqrt(found.variance),
        is_open=False,
        is_smoothed=True,
    )
