"""Which of several policies differ, over many workloads: Friedman's test and Nemenyi's.

As Demsar recommends for several methods on many data sets (Journal of Machine Learning
Research 7, 2006): policies are ranked within each workload, so that no workload's joules outweigh
another's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from joulelab.errors import ConfigError, MeasurementError
from joulelab.registry import unknown_name
from joulelab.statistics.samples import Array, check_share

_NUM_PERMUTATIONS = 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRanks:
    """Ranks of policies over blocks, such as workloads.

    Attributes:
        mean_rank: Mean rank of each policy, best (lowest) first; 1 is best everywhere.
        num_blocks: Over how many blocks.
        statistic: Friedman's chi-square, corrected for ties.
        p: Probability of a statistic as large if no policy mattered, by permuting within
            blocks: exact for few blocks, where the chi-square distribution is not.
        critical_difference: Mean ranks that differ by this much or more differ (Nemenyi).
        level: Confidence level of that, for all pairs at once.
    """

    mean_rank: Mapping[str, float]
    num_blocks: int
    statistic: float
    p: float
    critical_difference: float
    level: float

    def differ(self, first: str, second: str) -> bool:
        """Whether two policies differ.

        Raises:
            UnknownNameError: If one was not ranked.
        """
        for name in (first, second):
            if name not in self.mean_rank:
                raise unknown_name("policy", name, self.mean_rank)
        gap = abs(self.mean_rank[first] - self.mean_rank[second])
        return gap >= self.critical_difference

    @property
    def alike(self) -> tuple[tuple[str, ...], ...]:
        """Largest sets of policies, neighbours in rank, of which no two differ."""
        names = list(self.mean_rank)
        found: list[tuple[str, ...]] = []
        for start, first in enumerate(names):
            group = tuple(name for name in names[start:] if not self.differ(first, name))
            if not found or group[-1] != found[-1][-1]:
                found.append(group)
        return tuple(found)


def rank_policies(
    costs: Mapping[str, Sequence[float] | Array], *, level: float = 0.95, seed: int = 0
) -> PolicyRanks:
    """Rank policies and test whether they differ.

    Args:
        costs: For each policy its cost (energy, EDP, regret; lower is better) in each block, in
            the same order of blocks. One cost per block: average repeats before.
        level: Confidence level of the critical difference.
        seed: Of the permutations, where there are too many to try all.

    Raises:
        ConfigError: For fewer than three policies, or lengths that differ.
        MeasurementError: For fewer than two blocks, a cost that is not finite, or ties all over.
    """
    check_share("level", level)
    table = _table(costs)
    ranks = stats.rankdata(table, axis=1)
    if np.ptp(ranks) == 0:
        raise MeasurementError("Policies must differ in some block to be ranked; all are tied.")
    num_blocks, num_policies = table.shape
    means = ranks.mean(axis=0)
    names = list(costs)
    return PolicyRanks(
        mean_rank={names[i]: float(means[i]) for i in np.argsort(means, kind="stable")},
        num_blocks=num_blocks,
        statistic=float(stats.friedmanchisquare(*table.T).statistic),
        p=_permutation_p(ranks, seed),
        critical_difference=critical_difference(num_policies, num_blocks, level),
        level=level,
    )


def critical_difference(num_policies: int, num_blocks: int, level: float = 0.95) -> float:
    """Return Nemenyi's critical difference of mean ranks.

    The quantile of the studentised range over the root of two, times the standard deviation of a
    difference of mean ranks (Demsar, section 3.2.2).
    """
    quantile = float(stats.studentized_range.ppf(level, num_policies, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(num_policies * (num_policies + 1) / (6.0 * num_blocks)))


def _table(costs: Mapping[str, Sequence[float] | Array]) -> Array:
    if len(costs) < 3:
        raise ConfigError(
            f"At least three policies are required, got {sorted(costs)}; "
            "compare two with compare_pairs."
        )
    lengths = {name: len(values) for name, values in costs.items()}
    if len(set(lengths.values())) != 1:
        raise ConfigError(f"Every policy must have a cost in each block, got {lengths}.")
    table = np.array(list(costs.values()), dtype=np.float64).T
    if len(table) < 2:
        raise MeasurementError(f"At least two blocks are required, got {len(table)}.")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        block, policy = bad[0]
        raise MeasurementError(
            f"Costs must be finite, got {table[block, policy]} of {list(costs)[policy]!r} in "
            f"block {block}; leave the block out for all policies."
        )
    return table


def _permutation_p(ranks: Array, seed: int) -> float:
    """Return the p-value of the sum of squared rank sums, of which the statistic is a function."""

    def spread(*policies: Array, axis: int = -1) -> Array:
        return np.asarray(np.sum([ranked.sum(axis=axis) ** 2 for ranked in policies], axis=0))

    found = stats.permutation_test(
        tuple(ranks.T),
        spread,
        permutation_type="samples",
        vectorized=True,
        n_resamples=_NUM_PERMUTATIONS,
        batch=1000,
        alternative="greater",
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)
