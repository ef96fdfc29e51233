"""Scores of predictions for applications that a model was not shown."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.calibration import Interval
from joulelab.power_models.runs import Array, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorScores:
    """How far predictions are off, relative to the measured value, without signs.

    ``mean`` and ``p95`` (percentile) are over rows; median and worst are of applications' means.
    """

    mean: float
    median_application: float
    worst_application: float
    p95: float
    worst_name: str
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalScores:
    """How good intervals are that promise to cover ``level``.

    ``coverage`` is the mean over applications of the share of rows covered,
    ``whole_applications`` the share of those with all rows covered; ``half_width`` is in logs.
    """

    level: float
    coverage: float
    whole_applications: float
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretScores:
    """What the chosen clocks cost over the best ones, relative, over applications."""

    mean: float
    median: float
    worst: float


def error_scores(measured: Array, predicted: Array, application: Names) -> ErrorScores:
    """Score predictions.

    Raises:
        ConfigError: If there are none.
    """
    if not len(measured):
        raise ConfigError("At least one prediction is required to score, got none.")
    error = np.abs(predicted / measured - 1.0)
    means = {name: float(error[application == name].mean()) for name in np.unique(application)}
    worst = max(means, key=lambda name: means[name])
    return ErrorScores(
        mean=float(error.mean()),
        median_application=float(np.median(list(means.values()))),
        worst_application=means[worst],
        p95=float(np.percentile(error, 95)),
        worst_name=str(worst),
        num_rows=len(error),
    )


def interval_scores(
    measured: Array, intervals: Sequence[Interval], application: Names
) -> IntervalScores:
    """Score intervals, concatenated in the order of ``measured``."""
    lower = np.concatenate([interval.lower for interval in intervals])
    upper = np.concatenate([interval.upper for interval in intervals])
    covered = (lower <= measured) & (measured <= upper)
    shares = [covered[application == name].mean() for name in np.unique(application)]
    return IntervalScores(
        level=intervals[0].level,
        coverage=float(np.mean(shares)),
        whole_applications=float(np.mean([share == 1.0 for share in shares])),
        half_width=float(np.mean(np.log(upper / lower) / 2)),
    )


def regret_scores(regrets: Sequence[float]) -> RegretScores:
    """Score the regrets of the applications."""
    values = np.array(regrets, dtype=float)
    return RegretScores(
        mean=float(values.mean()), median=float(np.median(values)), worst=float(values.max())
    )
