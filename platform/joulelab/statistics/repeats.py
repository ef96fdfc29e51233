"""How many repeats a question needs, before it is measured.

All designs are paired: every repeat measures both conditions in one block.
"""

from collections.abc import Callable

import numpy as np

from joulelab.errors import ConfigError
from joulelab.statistics.samples import check_share

MOST_REPEATS = 10_000
"""No more are looked for: a question that needs so many needs another design."""


def repeats_to_see(
    change: float,
    run_cv: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    block_correlation: float = 0.0,
) -> int:
    """Return how many pairs of runs show a change with a paired t test, two-sided.

    Args:
        change: Relative change to be seen: 0.01 is one percent; negative for a saving.
        run_cv: Standard deviation of single runs, relative.
        power: Probability of seeing it if it is there.
        alpha: Probability of seeing one where there is none.
        block_correlation: Correlation of the two runs of a pair; interleaving makes it positive.

    Raises:
        ConfigError: If an argument is out of range, or no number up to 10 000 suffices.
    """
    from statsmodels.stats.power import TTestPower

    effect = abs(_logarithm(change)) / difference_sd(run_cv, block_correlation)
    _check(power, alpha)
    solver = TTestPower()
    return _fewest(lambda n: float(solver.power(effect, n, alpha, alternative="two-sided")), power)


def change_to_see(
    num_repeats: int,
    run_cv: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    block_correlation: float = 0.0,
) -> float:
    """Return the smallest increase (0.01 is one percent) that ``num_repeats`` pairs show.

    Arguments and errors are those of :func:`repeats_to_see`.
    """
    from statsmodels.stats.power import TTestPower

    _check(power, alpha)
    if num_repeats < 2:
        raise ConfigError(f"num_repeats must be at least 2, got {num_repeats}.")
    sd = difference_sd(run_cv, block_correlation)
    solver = TTestPower()
    low, high = 0.0, 1.0
    while float(solver.power(high, num_repeats, alpha)) < power:
        high *= 2.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        enough = float(solver.power(middle, num_repeats, alpha)) >= power
        low, high = (low, middle) if enough else (middle, high)
    return float(np.expm1(high * sd))


def repeats_to_equal(
    margin: float,
    run_cv: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    block_correlation: float = 0.0,
) -> int:
    """Return how many pairs show by TOST that there is no change, if there is none.

    Each of the two one-sided tests fails with a probability that statsmodels knows; both
    probabilities are added, which is exact where not both can fail, and never too few repeats.

    Args:
        margin: Largest relative change that counts as none.
        run_cv: Standard deviation of single runs, relative.
        power: Probability of showing it.
        alpha: Level of each one-sided test.
        block_correlation: As in :func:`repeats_to_see`.

    Raises:
        ConfigError: As :func:`repeats_to_see`.
    """
    from statsmodels.stats.power import TTestPower

    check_share("margin", margin)
    _check(power, alpha)
    effect = float(np.log1p(margin)) / difference_sd(run_cv, block_correlation)
    solver = TTestPower()
    one_sided = (1 + power) / 2
    return _fewest(lambda n: float(solver.power(effect, n, alpha, alternative="larger")), one_sided)


def difference_sd(run_cv: float, block_correlation: float = 0.0) -> float:
    """Return the standard deviation of the log-ratio of the two runs of a pair.

    Raises:
        ConfigError: If ``run_cv`` is not positive or the correlation is not below 1.
    """
    if not 0.0 < run_cv < np.inf:
        raise ConfigError(f"run_cv must be positive, got {run_cv}.")
    if not -1.0 <= block_correlation < 1.0:
        raise ConfigError(f"block_correlation must be from -1 to below 1, got {block_correlation}.")
    return run_cv * float(np.sqrt(2.0 * (1.0 - block_correlation)))


def _check(power: float, alpha: float) -> None:
    check_share("power", power)
    check_share("alpha", alpha)
    if power <= alpha:
        raise ConfigError(f"power must be above alpha, got {power} and {alpha}.")


def _logarithm(change: float) -> float:
    if not (change > -1.0 and change != 0.0 and np.isfinite(change)):
        raise ConfigError(f"change must be above -1 and not 0, got {change}.")
    return float(np.log1p(change))


def _fewest(power_of: Callable[[int], float], power: float) -> int:
    low, high = 1, 2
    while power_of(high) < power:
        low, high = high, 2 * high
        if low >= MOST_REPEATS:
            raise ConfigError(
                f"More than {MOST_REPEATS} repeats would be needed; ask for a larger change, or "
                "lower the scatter of runs."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return high
