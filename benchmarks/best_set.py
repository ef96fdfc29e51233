"""How often the set that cannot be told apart from the best misses the truly best clock."""

from collections.abc import Sequence

import numpy as np
from figures import Figure

from joulelab.core.additive import AdditiveFit, fit_additive
from joulelab.core.comparison import best_set

SWEEPS = 1000
CLOCKS_MHZ = np.arange(600.0, 1981.0, 45.0)
BOARDS = 4
REPEATS = 3


def figures() -> list[Figure]:
    """Simulate sweeps with a known optimum, at three levels of noise."""
    return [_figure(noise) for noise in (0.003, 0.01, 0.03)]


def _figure(noise: float) -> Figure:
    x = CLOCKS_MHZ / 1980
    truth = np.log((100 + 300 * x**3) * (0.6 + 0.4 / x) ** 2)
    best = str(int(np.argmin(truth)))
    found = [best_set(_sweep(truth, noise, seed)) for seed in range(SWEEPS)]
    missed = float(np.mean([best not in each.members for each in found]))
    lowest = float(np.mean([each.best == best for each in found]))
    size = float(np.mean([len(each.members) for each in found]))
    return Figure(
        name=f"true optimum missing from the set, noise {noise:.1%}",
        measured=100 * missed,
        promised=5.0,
        unit="%",
        how=f"{SWEEPS} sweeps of {len(truth)} clocks x {REPEATS} on {BOARDS} boards; "
        f"mean set {size:.1f} clocks; the lowest estimate alone is right in {lowest:.0%}",
    )


def _sweep(truth: Sequence[float], noise: float, seed: int) -> AdditiveFit:
    random = np.random.default_rng(seed)
    clocks = np.concatenate([np.repeat(np.arange(len(truth)), REPEATS), np.zeros(BOARDS, int)])
    boards = np.concatenate([random.integers(BOARDS, size=len(truth) * REPEATS), np.arange(BOARDS)])
    values = np.asarray(truth)[clocks] + random.normal(0, 0.03, BOARDS)[boards]
    return fit_additive(
        [str(clock) for clock in clocks],
        [str(board) for board in boards],
        values + random.normal(0, noise, len(clocks)),
        np.full(len(clocks), 1e-4),
    )
