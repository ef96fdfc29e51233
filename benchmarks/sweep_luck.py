"""What the scatter of measured sweeps alone costs the best possible choice of a clock.

Its points are drawn again around the smoothed sweep, and the clock that is best on the curve is
scored against the luckiest of them.
"""

from dataclasses import dataclass

import numpy as np
from smoothing import FEWEST, smoothed_cost, smoothed_logs

from joulelab.errors import ConfigError
from joulelab.power_models.decision import Sweep
from joulelab.power_models.members.readings import off_neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class LuckScores:
    """What scatter makes of the best possible choices; relative, means over applications.

    Attributes:
        mean: Expected regret of choices by the true curves.
        lower: Fifth percentile of what a study of these applications may find for it.
        upper: 95th percentile.
    """

    mean: float
    lower: float
    upper: float


def luck_of(
    sweeps: list[Sweep],
    objective: str,
    *,
    replays: int = 1000,
    seed: int = 0,
    is_smoothed: bool = False,
) -> LuckScores:
    """Replay the scatter of sweeps on their smoothed curves, and score the best clock of these.

    Scatter is drawn from how far the points of each sweep are from their neighbours, so that what
    the smooth curve does not follow is no part of it. Redrawn, extremes are rarer than they are:
    the luck of some fifty points is told a fifth too low.

    Args:
        sweeps: Measured ones; those with fewer than five usable rows are left out.
        objective: What is minimised.
        replays: How often.
        seed: Of the scatter.
        is_smoothed: Whether choices are scored on each replay smoothed again, which takes 0.1 s a
            sweep and replay, rather than against its luckiest point.

    Raises:
        ConfigError: If no sweep has five usable rows.
    """
    random = np.random.default_rng(seed)
    regrets = []
    for sweep in sweeps:
        cost, smooth = sweep.cost(objective), smoothed_cost(sweep, objective)
        order = np.argsort(sweep.sm_clock_mhz)
        order = order[np.isfinite(cost[order])]
        if len(order) < FEWEST:
            continue
        scatter = off_neighbours(np.log(cost[order]))
        drawn = random.choice(scatter, (replays, len(order)))
        replayed = np.log(smooth[order]) + drawn - scatter.mean()
        if is_smoothed:
            clocks = sweep.sm_clock_mhz[order]
            replayed = np.array([smoothed_logs(clocks, each) for each in replayed])
        chosen = replayed[:, int(np.argmin(smooth[order]))]
        regrets.append(np.expm1(chosen - replayed.min(axis=1)))
    if not regrets:
        raise ConfigError("At least one sweep with five usable clocks is required, got none.")
    means = np.mean(regrets, axis=0)
    lower, upper = np.percentile(means, (5, 95))
    return LuckScores(mean=float(means.mean()), lower=float(lower), upper=float(upper))
