"""How far a score would move on another data set of the same kind and size."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from joulelab.core.statistics import mean_u
from joulelab.errors import MeasurementError
from joulelab.quality.base import Score


def mean_score(values: Sequence[float], counted: str) -> Score:
    """Return the mean of a score of each thing, with its standard uncertainty."""
    return Score(
        value=float(np.mean(values)),
        u=mean_u(values) if len(values) > 1 else None,
        n=len(values),
        counted=counted,
        samples=tuple(values),
    )


def grouped_score(
    values: Sequence[float], counted: str, groups: npt.NDArray[np.integer[Any]] | None
) -> Score:
    """Return the mean of a score of each thing, with a sample for each group of things."""
    if groups is None:
        groups = np.arange(len(values))
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return pooled_score(np.bincount(places, weights=values).tolist(), counts.tolist(), counted)


def pooled_score(sums: Sequence[float], counts: Sequence[int], counted: str) -> Score:
    """Return the mean over clusters as by :func:`pooled_mean`, with a sample for each."""
    mean, u = pooled_mean(sums, counts)
    samples = tuple(zip(sums, counts, strict=True))
    return Score(value=mean, u=u, n=sum(counts), counted=counted, samples=samples)


def ratio_of_sums(samples: Sequence[tuple[float, int]]) -> float:
    """Return the mean over clusters that are given by their sums and counts."""
    total, count = np.sum(samples, axis=0)
    return float(total / count)


def pooled_mean(sums: Sequence[float], counts: Sequence[int]) -> tuple[float, float | None]:
    """Return the mean over clusters, each given by its sum and its count, and its uncertainty.

    Things within a cluster, such as the tokens of one text, resemble each other, so it is the
    clusters that are taken as independent. The uncertainty is that of the ratio estimator for
    cluster samples (Cochran, "Sampling Techniques", 3rd edition, section 9A.1, without the finite
    population factor); for clusters of equal size it is the standard uncertainty of their mean.

    Returns:
        The mean, and its standard uncertainty, ``None`` for a single cluster.

    Raises:
        MeasurementError: If nothing was counted.
    """
    total = sum(counts)
    if total < 1:
        raise MeasurementError("The mean of no values is no number.")
    mean = float(sum(sums) / total)
    num = len(sums)
    if num < 2:
        return mean, None
    residuals = np.asarray(sums) - mean * np.asarray(counts)
    return mean, float(np.sqrt(num / (num - 1) * np.sum(residuals**2)) / total)
