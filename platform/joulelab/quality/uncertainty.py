"""How far a score would move on another data set of the same kind and size."""

from collections.abc import Sequence

import numpy as np

from joulelab.errors import MeasurementError


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
