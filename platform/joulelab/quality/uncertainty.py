"""How far a score, and a retention, would move on another data set of the same kind and size."""

import warnings
from collections.abc import Sequence
from math import log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from joulelab.core.quality import RETENTION_LEVEL, retention
from joulelab.core.statistics import (
    jackknife_u,
    log_ratio_interval,
    mean_u,
    student_t,
)
from joulelab.errors import MeasurementError
from joulelab.quality.base import Metric, Score

_LEAST = 10  # samples; fewer do not show how they scatter
_LEAST_CHANGED = 2
_SEED = 0
_BATCH = 64


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
    population factor); for clusters of equal size it is the standard uncertainty of their mean, and
    ``None`` for a single cluster. Raises MeasurementError if nothing was counted.
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


def retention_interval(metric: Metric, ours: Score, theirs: Score) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the share of ``theirs`` that ``ours`` keeps.

    Both scored the same things, so these are drawn in pairs: what makes a thing hard for both
    cancels. The bootstrap is that of scipy, bias-corrected and accelerated (Efron, "Better
    bootstrap confidence intervals", 1987); the jackknife that of the logarithm of the
    retention, whose variance it tends to overstate (Efron and Stein, "The jackknife estimate of
    variance", 1981). Raises MeasurementError if there is no interval; says why.
    """
    _require_samples(metric, ours, theirs)
    if metric.interval == "jackknife":
        kept = [
            log(retention(mine, others, metric.direction))
            for mine, others in zip(ours.samples, theirs.samples, strict=True)
        ]
        center = log(retention(ours.value, theirs.value, metric.direction))
        factor = student_t(RETENTION_LEVEL, len(kept))
        return log_ratio_interval(center, float(jackknife_u(kept)), factor)
    return _bootstrap(metric, ours, theirs)


def _require_samples(metric: Metric, ours: Score, theirs: Score) -> None:
    counts = len(ours.samples), len(theirs.samples)
    if not all(counts):
        raise MeasurementError(f"No interval: {metric.why_no_samples}")
    if counts[0] != counts[1]:
        raise MeasurementError(
            f"No interval: pairs are needed, and {counts[0]} parts were scored against {counts[1]}."
        )
    if counts[0] < _LEAST:
        raise MeasurementError(
            f"No interval: it takes at least {_LEAST} independent parts of a data set (texts, "
            f"windows, images), and this one has {counts[0]}."
        )
    if (num := _num_changed(ours, theirs)) < _LEAST_CHANGED:
        raise MeasurementError(
            f"No interval: of {counts[0]} parts {num} score otherwise than the reference's, and it "
            f"takes {_LEAST_CHANGED} to show how far the retention could move; a larger data set "
            "may."
        )


def _num_changed(ours: Score, theirs: Score) -> int:
    pairs = zip(ours.samples, theirs.samples, strict=True)
    return sum(mine != others for mine, others in pairs)


def _bootstrap(metric: Metric, ours: Score, theirs: Score) -> tuple[float, float]:
    from scipy.stats import bootstrap  # type: ignore[import-untyped]

    pairs = _drawable(ours.samples), _drawable(theirs.samples)

    def kept(drawn: npt.NDArray[np.int64]) -> float:
        mine, others = (metric.pooled(_drawn(samples, drawn)) for samples in pairs)
        try:
            return retention(mine, others, metric.direction)
        except MeasurementError:
            return float("nan")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is then not a number
        found = bootstrap(
            (np.arange(len(ours.samples)),),
            kept,
            n_resamples=metric.num_draws,
            batch=_BATCH,
            vectorized=False,
            confidence_level=_drawn_level(len(ours.samples), _num_changed(ours, theirs)),
            method="BCa",
            random_state=np.random.default_rng(_SEED),
        ).confidence_interval
    low, high = float(found.low), float(found.high)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise MeasurementError(
            "No interval: among the parts drawn anew some have no retention, or none lies on the "
            "other side of the data set's."
        )
    return low, high


def _drawn_level(n: int, num_changed: int) -> float:
    """Return the level at which means of ``n`` drawn parts hold what the parts themselves ask for.

    Means of parts drawn anew scatter too little by the root of ``(n - 1) / n``, and as if their
    scatter were known (Hesterberg, "What teachers should know about the bootstrap", The American
    Statistician 69, 2015). Where most parts score as the reference's, the others alone tell the
    scatter: the number of rare ones varies by its root, as chi squared does of twice as many
    degrees of freedom (Satterthwaite, "An approximate distribution of estimates of variance
    components", Biometrics Bulletin 2, 1946).
    """
    dof = min(n - 1, 2 * num_changed)
    return 2 * NormalDist().cdf(sqrt(n / (n - 1)) * student_t(RETENTION_LEVEL, dof + 1)) - 1


def _drawable(samples: tuple[Any, ...]) -> Any:
    """Return ``samples`` as an array if they are numbers, or rows of as many."""
    try:
        return np.array(samples, dtype=np.float64)
    except (TypeError, ValueError):
        return samples


def _drawn(samples: Any, which: npt.NDArray[np.int64]) -> Sequence[Any]:
    if isinstance(samples, np.ndarray):
        drawn: Sequence[Any] = samples[which]  # type: ignore[assignment]
        return drawn
    return [samples[index] for index in which]
