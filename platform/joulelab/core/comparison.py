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
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, floor, inf, isinf, sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import AdditiveFit, Array, Interval
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


def over_best(fit: AdditiveFit, name: str, *, level: float = 0.95) -> Interval:
    """Return ``name`` over the lowest value of all, whichever that is, with its interval.

    A ratio to the lowest estimate would hold the luck that made it the lowest: this covers the
    errors of all differences at once (Hsu 1984), each side by half of what may be missed.
    """
    i = fit.configurations.index(name)
    behind = fit.estimate[i] - fit.estimate
    if fit.is_open:
        return Interval(value=exp(behind.max()), low=1.0, high=inf)
    margin = _margins(_sources(fit, i), i, (1 + level) / 2) if len(behind) > 1 else behind
    low, high = max(0.0, float((behind - margin).max())), float((behind + margin).max())
    return Interval(value=exp(behind.max()), low=exp(low), high=exp(high))


_Source = tuple[Array, Array, float]
"""Covariance of estimates, uncertainties of one less each, and degrees of freedom."""


def _sources(fit: AdditiveFit, i: int) -> list[_Source]:
    known = (
        (fit.scatter, fit.scatter_u(i), float(fit.dof)),
        (fit.stated, fit.stated_u(i), inf),
    )
    return [(covariance, u, dof) for covariance, u, dof in known if dof and u.any()]


def _margins(sources: Sequence[_Source], i: int, level: float) -> Array:
    """Return by how much ``i`` may err against each of the others, at once and to one side."""
    margin: Array = np.zeros(1)
    for covariance, u, dof in sources:
        correlation = _smallest_correlation(covariance, u, i)
        quantile = dunnett_quantile(level, num=len(u) - 1, correlation=correlation, dof=dof)
        margin = np.maximum(margin, quantile * u)
    return margin


def _may_be_best(fit: AdditiveFit, i: int, level: float) -> bool:
    num = len(fit.configurations) - 1
    behind = fit.estimate[i] - fit.estimate
    if fit.is_open or not (behind > 0).any():
        return True
    sources = _sources(fit, i)
    narrowest = widest = np.zeros_like(behind)
    # Correlations are slow to find: Dunnett's margin is between that of one comparison and
    # Bonferroni's, whatever they are.
    for _, u, dof in sources:
        narrowest = np.maximum(narrowest, student_quantile(level, dof) * u)
        widest = np.maximum(widest, student_quantile(1 - (1 - level) / num, dof) * u)
    if (behind <= narrowest).all() or (behind > widest).any():
        return bool((behind <= narrowest).all())
    return bool((behind <= _margins(sources, i, level)).all())


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
