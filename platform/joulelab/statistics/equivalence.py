"""Whether a change costs no time: equivalence, which a test that finds nothing does not show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from joulelab.core.additive import Interval
from joulelab.errors import ConfigError
from joulelab.statistics.samples import Array, check_scatter, check_share, log_ratios

Verdict = Literal["equivalent", "not slower", "slower", "open"]
"""``open``: the runs show neither; see :func:`joulelab.statistics.repeats.repeats_to_equal`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Whether times are the same within a margin.

    Attributes:
        ratio: Geometric mean of time over reference time; its interval has the level
            ``1 - 2 alpha``, at which lying inside the margins and passing the tests are one.
        margin: Largest relative change that counts as none.
        alpha: Probability of finding equivalence where the change is as large as the margin.
        p_equivalent: p-value of the two one-sided tests together.
        p_not_slower: p-value of the one against a slowdown.
    """

    ratio: Interval
    margin: float
    alpha: float
    p_equivalent: float
    p_not_slower: float

    @property
    def verdict(self) -> Verdict:
        """What the runs show; ``slower`` if the whole interval is beyond the margin."""
        if self.p_equivalent <= self.alpha:
            return "equivalent"
        if self.p_not_slower <= self.alpha:
            return "not slower"
        return "slower" if self.ratio.low > 1 + self.margin else "open"


def no_slowdown(
    time_s: Sequence[float] | Array,
    reference_time_s: Sequence[float] | Array,
    *,
    margin: float = 0.01,
    alpha: float = 0.05,
) -> Equivalence:
    """Test that times are within ``margin`` of their references: TOST on paired log-ratios.

    The two one-sided tests of Schuirmann (Journal of Pharmacokinetics and Biopharmaceutics 15,
    1987), with margins ``1 / (1 + margin)`` and ``1 + margin``.

    Args:
        time_s: Times with the change, one per block.
        reference_time_s: Their partners without it.
        margin: Largest slowdown that counts as none, relative.
        alpha: Level of each test, below 0.5.

    Raises:
        ConfigError: If the lengths differ, or ``margin`` or ``alpha`` is out of range.
        MeasurementError: For fewer than two pairs, a time that is not positive, or pairs that
            do not scatter.
    """
    from statsmodels.stats.weightstats import DescrStatsW

    check_share("margin", margin)
    check_share("alpha", alpha)
    if alpha >= 0.5:
        raise ConfigError(f"alpha must be below 0.5, got {alpha}.")
    logarithms = log_ratios(time_s, reference_time_s)
    check_scatter(logarithms)
    described = DescrStatsW(logarithms)
    bound = float(np.log1p(margin))
    p_equivalent, _, (_, p_not_slower, _) = described.ttost_mean(-bound, bound)
    low, high = described.tconfint_mean(2 * alpha)
    return Equivalence(
        ratio=Interval(
            value=float(np.exp(logarithms.mean())), low=float(np.exp(low)), high=float(np.exp(high))
        ),
        margin=margin,
        alpha=alpha,
        p_equivalent=float(p_equivalent),
        p_not_slower=float(p_not_slower),
    )
