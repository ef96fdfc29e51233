"""Means, their uncertainty, and intervals."""

from collections.abc import Iterable, Sequence
from functools import cache
from math import cos, exp, isinf, log, pi, sin, sqrt, tan
from statistics import NormalDist, StatisticsError, fmean, linear_regression, stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray

from joulelab.errors import ConfigError, MeasurementError


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of what was read; ``None`` if nothing was."""
    read = [value for value in values if value is not None]
    return fmean(read) if read else None


def mean_u(values: Sequence[float]) -> float:
    """Return the standard uncertainty of the mean of independent ``values``.

    It is the sample standard deviation over the square root of their number (GUM 4.2.3); 0 for a
    single value, whose scatter cannot be known from itself. Raises MeasurementError if there are no
    values.
    """
    if not values:
        raise MeasurementError("The mean of no values is no number.")
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def jackknife_u(left_out: ArrayLike) -> NDArray[np.float64]:
    """Return the standard uncertainty of a figure from its values without one thing each.

    The things are along the first axis. It tends to be overstated (Efron and Stein, "The jackknife
    estimate of variance", Annals of Statistics 9, 1981).
    """
    found = np.asarray(left_out, dtype=np.float64)
    return np.asarray(sqrt(len(found) - 1.0) * found.std(axis=0))


def student_t(level: float, num_values: int) -> float:
    """Return the two-sided Student t factor for the mean of ``num_values`` values.

    Args:
        level: Confidence level within (0, 1), e.g. 0.95.
        num_values: How many values the mean is of, at least 2.
    """
    if not (0 < level < 1 and num_values >= 2):
        raise ConfigError(
            f"level must be within (0, 1) and num_values at least 2, got {level}, {num_values}."
        )
    return student_quantile((1 + level) / 2, num_values - 1)


@cache
def student_quantile(probability: float, dof: float) -> float:
    """Return the quantile of Student's t distribution, the normal one for infinite ``dof``.

    By bisection of the angle ``atan(t / sqrt(dof))``. SciPy has it too, but would be two thirds of
    what measuring installs.

    Args:
        probability: Within (0, 1).
        dof: A whole number of degrees of freedom, or infinity.
    """
    if isinf(dof):
        return NormalDist().inv_cdf(probability)
    if probability < 0.5:
        return -student_quantile(1 - probability, dof)
    level, low, high = 2 * probability - 1, 0.0, pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, int(dof)) < level else (low, middle)
    return tan(low) * sqrt(dof)


def _student_within(angle: float, dof: int) -> float:
    r"""Probability that \|T\| is at most ``tan(angle) * sqrt(dof)``.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
    """
    odd, cosine = dof % 2, cos(angle)
    term, series = cosine if odd else 1.0, 0.0
    for step in range((dof - 1) // 2 if odd else dof // 2):
        series += term
        term *= cosine**2 * (2 * step + 1 + odd) / (2 * step + 2 + odd)
    return 2 / pi * (angle + sin(angle) * series) if odd else sin(angle) * series


def log_ratio(value: float, reference: float) -> float:
    """Return ``ln(value / reference)``, in which savings and losses are symmetric.

    Raises MeasurementError if either is not positive.
    """
    if not (value > 0 and reference > 0):
        raise MeasurementError(f"A ratio needs positive numbers, got {value} and {reference}.")
    return log(value / reference)


def log_ratio_interval(center: float, u: float, factor: float) -> tuple[float, float]:
    """Return the interval of a ratio whose logarithm is ``center`` with uncertainty ``u``."""
    return exp(center - factor * u), exp(center + factor * u)


def line_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of the least-squares line through the points.

    Raises MeasurementError if all ``x`` are equal, or there are fewer than two points.
    """
    try:
        return linear_regression(x, y).slope
    except StatisticsError as error:
        raise MeasurementError(f"These points have no slope: {error}.") from error


def line_slope_and_u(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Return the slope of the least-squares line and its standard error from the scatter.

    At least three places ``x``, not all equal, and ``y`` there have shape ``(n,)``.
    """
    places, found = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    centred = places - places.mean()
    spread = float(centred @ centred)
    slope = float(centred @ found) / spread
    residual = found - found.mean() - slope * centred
    return slope, sqrt(float(residual @ residual) / (len(found) - 2) / spread)
