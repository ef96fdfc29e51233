"""What a change does, from pairs of runs with and without it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from joulelab.core.additive import Interval
from joulelab.errors import ConfigError
from joulelab.statistics.samples import Array, check_scatter, check_share, log_ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """A change, as the ratio of what was measured with it to what was without.

    Attributes:
        num_pairs: Number of pairs.
        ratio: Geometric mean of the ratios, with Student's interval.
        hodges_lehmann: Hodges-Lehmann estimate of the ratio, which one bad run cannot move far.
        p_t: p-value of the paired t test that the ratio is 1, two-sided.
        p_wilcoxon: The same by Wilcoxon's signed-rank test, which assumes no normal scatter; it
            cannot fall below ``2 ** (1 - num_pairs)``, so needs six pairs to reach 0.05.
    """

    num_pairs: int
    ratio: Interval
    hodges_lehmann: float
    p_t: float
    p_wilcoxon: float


def compare_pairs(
    treated: Sequence[float] | Array, reference: Sequence[float] | Array, *, level: float = 0.95
) -> PairedComparison:
    """Compare pairs of runs, each pair from one block on one board.

    Args:
        treated: Energies, times or powers with the change, all positive.
        reference: The partners without it.
        level: Confidence level of the interval.

    Raises:
        ConfigError: If the two are not of one length.
        MeasurementError: For fewer than two pairs, a value that is not positive, or pairs that
            do not scatter.
    """
    check_share("level", level)
    logarithms = log_ratios(treated, reference)
    check_scatter(logarithms)
    tested = stats.ttest_1samp(logarithms, 0.0)
    low, high = tested.confidence_interval(level)
    return PairedComparison(
        num_pairs=len(logarithms),
        ratio=Interval(
            value=float(np.exp(logarithms.mean())), low=float(np.exp(low)), high=float(np.exp(high))
        ),
        hodges_lehmann=float(np.exp(_pseudomedian(logarithms))),
        p_t=float(tested.pvalue),
        p_wilcoxon=float(stats.wilcoxon(logarithms).pvalue),
    )


def holm(p_values: Sequence[float] | Array) -> Array:
    """Return p-values adjusted for their number by Holm's method, shape ``(n,)``.

    Those below a level hold all at once with that level (Holm, Scandinavian Journal of
    Statistics 6, 1979).

    Raises:
        ConfigError: If one is no p-value.
    """
    from statsmodels.stats.multitest import multipletests

    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not ((values >= 0) & (values <= 1)).all():
        raise ConfigError(f"p_values must lie from 0 to 1, got {values.tolist()}.")
    return np.asarray(multipletests(values, method="holm")[1])


def _pseudomedian(values: Array) -> float:
    """Return the median of the means of all pairs, each value with itself included."""
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))
