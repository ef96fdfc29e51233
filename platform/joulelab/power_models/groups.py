"""Groups that are held out as a whole: folds of them, and what scores of one more stay below."""

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.runs import Array, Flags, Names

_NO_INTERVALS = "--level 0 (predict in Python) asks for no interval"


def group_folds(groups: Names, num_folds: int, seed: int) -> list[Flags]:
    """Return which rows each fold holds out, whole groups at a time.

    Up to twice as many groups as folds are left out one by one. More are dealt into folds, and
    then once more: what one deal has left out together, such as all that memory bounds, made some
    intervals seven times as wide as those of another seed.
    """
    names = np.unique(groups)
    if len(names) <= 2 * num_folds:
        return [groups == name for name in names]
    random = np.random.default_rng(seed)
    deals = [names[random.permutation(len(names))] for _ in range(2)]
    return [np.isin(groups, deal[start::num_folds]) for deal in deals for start in range(num_folds)]


def highest_level(group: Names) -> float:
    """Return the highest level of intervals that so many groups give, rounded down."""
    number = len(np.unique(group))
    return float(np.floor(1e3 * number / (number + 1)) / 1e3)


def group_quantile(scores: Array, group: Names, level: float, what: str = "applications") -> float:
    """Return what scores of another group stay below in a share ``level`` of its rows.

    Raises ConfigError if ``level`` is not between 0 and 1, or too high for so few groups, which
    are ``what``.
    """
    if not 0.0 < level < 1.0:
        raise ConfigError(f"level must be between 0 and 1, got {level}.")
    groups, which, counts = np.unique(group, return_inverse=True, return_counts=True)
    if level > len(groups) / (len(groups) + 1) + 1e-12:
        raise ConfigError(
            f"An interval of level {level:g} needs {int(np.ceil(level / (1 - level) - 1e-9))} "
            f"{what} when the model is fitted, got {len(groups)}: ask for --level "
            f"{highest_level(group):g} at most; {_NO_INTERVALS}."
        )
    order = np.argsort(scores)
    weight = (1.0 / counts)[which]
    reached = np.cumsum(weight[order])
    plain = scores[order][np.searchsorted(reached, level * len(groups) - 1e-9)]
    covered = np.bincount(which, weight * (scores <= plain)).astype(float)
    needed = level * (len(groups) + _alike(covered))
    position = min(int(np.searchsorted(reached, needed - 1e-9)), len(order) - 1)
    return float(scores[order][position])


def no_intervals(model: str, what: str) -> ConfigError:
    """Say that a model gives no intervals, for which it holds out groups that are ``what``."""
    return ConfigError(
        f"Intervals of {model!r} need at least 3 {what} and calibration_folds of 2 when it is "
        f"fitted, got fewer: {_NO_INTERVALS}."
    )


def _alike(shares: Array) -> float:
    """Return how much alike rows of a group are, 0 to 1, from the share covered of each group.

    The variance of the shares over that of single rows: 1 if each group is covered or missed as a
    whole, and next to 0 if rows are so independently.
    """
    mean = shares.mean()
    if not 0.0 < mean < 1.0:
        return 1.0
    return float(min(1.0, shares.var(ddof=1) / (mean * (1.0 - mean))))
