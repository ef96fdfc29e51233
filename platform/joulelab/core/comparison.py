"""Which configuration is best, and which are statistically indistinguishable from it.

Multiple comparisons with the best (Hsu, "Constrained simultaneous confidence intervals for multiple
comparisons with the best", Annals of Statistics 12, 1984; unbalanced designs: Hsu, "Multiple
Comparisons: Theory and Methods", Chapman & Hall 1996, section 4.2). A configuration is in the set
unless some other one is better by more than its one-sided Dunnett margin. Whatever the truth, the
set then holds the truly best configuration with at least the stated probability: for that one, all
true differences are on the right side, and the margins cover all their errors at once.

Dunnett's critical value (JASA 50, 1955) is computed for equal correlations at the smallest one that
occurs. By Slepian's inequality (Bell System Technical Journal 41, 1962) that can only widen the
margins, and it makes the multivariate integral a double one.

Recordings state no uncertainty of their own. Where nothing was repeated, each is compared with the
line through its two neighbours. What a curve bends between them counts as scatter, so that few
observations of a curve with a knee scatter more than they do, never less (Gasser, Sroka,
Jennen-Steinmetz, "Residual variance and residual pattern in nonlinear regression", Biometrika 73,
1986).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import floor, inf, isinf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import AdditiveFit, Array
from joulelab.core.configuration import Configuration
from joulelab.core.statistics import student_quantile
from joulelab.errors import ConfigError

_NODES = 48
_MAX_CORRELATION = 0.9  # beyond it the integrand is too steep for the nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSet:
    """The best configuration and its equals."""

    best: str  # configuration of the lowest estimate
    # Configurations statistically indistinguishable from the best, itself included, in the order of
    # their estimates.
    members: tuple[str, ...]
    level: float  # probability that the truly best configuration is among members, at least


def best_set(fit: AdditiveFit, *, level: float = 0.95) -> BestSet:
    """Return the configuration of the lowest value and those that may be as low."""
    order = np.argsort(fit.estimate, kind="stable")
    members = [int(i) for i in order if _may_be_best(fit, int(i), level)]
    return BestSet(
        best=fit.configurations[int(order[0])],
        members=tuple(fit.configurations[i] for i in members),
        level=level,
    )


@cache
def dunnett_quantile(level: float, *, num: int, correlation: float, dof: float) -> float:
    """Return the one-sided critical value for ``num`` comparisons with one common control.

    It is the ``q`` at which ``num`` Student-t variables with equal correlations are all at
    most ``q`` with probability ``level``.

    Args:
        level: The probability, above 0.5 and below 1.
        num: Number of comparisons, at least 1.
        correlation: Correlation of any two of them, up to 1; 0.5 for equal numbers of repeats.
            Below 0 the answer is Bonferroni's.
        dof: Degrees of freedom; infinite where the variances are known.
    """
    if correlation < 0:
        return student_quantile(1 - (1 - level) / num, dof)
    correlation = min(correlation, _MAX_CORRELATION)
    # One comparison is the least, independent ones the most that it can be (Slepian).
    low, high = student_quantile(level, dof), student_quantile(level ** (1 / num), dof)
    while high - low > 1e-6:
        middle = (low + high) / 2
        if _all_below(middle, num, correlation, dof) < level:
            low = middle
        else:
            high = middle
    return high


def _may_be_best(fit: AdditiveFit, i: int, level: float) -> bool:
    num = len(fit.configurations) - 1
    behind = fit.estimate[i] - fit.estimate
    if fit.is_open or not (behind > 0).any():
        return True
    sources = [
        (covariance, u, dof)
        for covariance, u, dof in (
            (fit.scatter, fit.scatter_u(i), float(fit.dof)),
            (fit.stated, fit.stated_u(i), inf),
        )
        if dof and u.any()
    ]
    margin = narrowest = widest = np.zeros_like(behind)
    # Correlations are slow to find: Dunnett's margin is between that of one comparison and
    # Bonferroni's, whatever they are.
    for _, u, dof in sources:
        narrowest = np.maximum(narrowest, student_quantile(level, dof) * u)
        widest = np.maximum(widest, student_quantile(1 - (1 - level) / num, dof) * u)
    if (behind <= narrowest).all() or (behind > widest).any():
        return bool((behind <= narrowest).all())
    for covariance, u, dof in sources:
        correlation = _smallest_correlation(covariance, u, i)
        quantile = dunnett_quantile(level, num=num, correlation=correlation, dof=dof)
        margin = np.maximum(margin, quantile * u)
    return bool((behind <= margin).all())


def _smallest_correlation(covariance: Array, u: Array, i: int) -> float:
    """Return the least correlation of any two differences between ``i`` and another one.

    It is rounded down to hundredths, so that a sweep needs few critical values.
    """
    others = np.flatnonzero(u)
    if len(others) < 2:
        return 0.0
    shared = covariance[i, i] - covariance[i, others]
    correlations = shared[:, None] - covariance[i, others]
    correlations += covariance[np.ix_(others, others)]
    correlations /= np.outer(u[others], u[others])
    np.fill_diagonal(correlations, 1.0)
    return floor(100 * float(correlations.min())) / 100


def _all_below(q: float, num: int, correlation: float, dof: float) -> float:
    """Return the probability that all ``num`` variables are at most ``q``.

    Given the common part z of the variables and the estimated standard deviation s, they are
    independent; what remains is to average over z and s.
    """
    from scipy.special import ndtr  # type: ignore[import-untyped]

    z, z_weight = _common_part()
    s, s_weight = _estimated_sd(dof)
    inner = (sqrt(correlation) * z[:, None] + q * s[None, :]) / sqrt(1 - correlation)
    return float(z_weight @ ndtr(inner) ** num @ s_weight)


@cache
def _common_part() -> tuple[Array, Array]:
    """Nodes and weights of a standard normal variable (Gauss-Hermite)."""
    z, weight = np.polynomial.hermite_e.hermegauss(_NODES)
    return z, weight / sqrt(2 * np.pi)


@cache
def _estimated_sd(dof: float) -> tuple[Array, Array]:
    """Nodes and weights of chi over the root of ``dof``, by its quantiles (Gauss-Legendre)."""
    from scipy.special import chdtri

    if isinf(dof):
        return np.ones(1), np.ones(1)
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    return np.sqrt(chdtri(dof, (1 + x) / 2) / dof), weight / 2


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
    """Return what makes differences from the line through both neighbours, of unit variance.

    Shape ``(m, len(names))``, a row for each name that has a neighbour on both sides.
    """
    rows = []
    for line in lines:
        placed = sorted((at, names.index(name)) for name, at in line)
        for (low, one), (middle, own), (high, other) in zip(
            placed[:-2], placed[1:-1], placed[2:], strict=True
        ):
            row, before = np.zeros(len(names)), (high - middle) / (high - low)
            row[[one, own, other]] = before, -1.0, 1.0 - before
            rows.append(row / sqrt(before**2 + (1.0 - before) ** 2 + 1.0))
    return np.array(rows).reshape(-1, len(names))


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
