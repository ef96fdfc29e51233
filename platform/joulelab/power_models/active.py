"""Active learning: which clock to measure next, until the choice of a clock is settled.

A clock may still be the best one if the lower end of its cost is below the upper end of the cost
of the clock chosen so far. The choice is settled when no clock may be better by more than a
tolerance. Until then the clock is measured after which the least regret is to be expected, where
the models are laws whose curves can be drawn (see ``worth``); of those as good the fastest, where
the laws err least. Of other models it is, of the clocks that may be best, the one with the lowest
lower end.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.decision import Goal
from joulelab.power_models.members.anchored import AnchoredModel
from joulelab.power_models.operating_model import TIME_EXPONENT, OperatingModel
from joulelab.power_models.queries import Profile, Queries, sweep
from joulelab.power_models.runs import Array, Runs, joined
from joulelab.power_models.worth import expected_regrets

_NUM_CURVES = 128
_ALIKE = 0.001
"""Expected regrets that differ by less are alike: draws and laws are no surer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Where a decision stands.

    Attributes:
        best_mhz: The clock to choose now.
        possible_regret: By how much another clock may be better, at most; relative.
        next_mhz: The clock to measure next; ``None`` if the choice is settled.
    """

    best_mhz: float
    possible_regret: float
    next_mhz: float | None


def suggestion(
    model: OperatingModel,
    profile: Profile,
    goal: Goal,
    *,
    measured_mhz: Array | None = None,
    clocks_mhz: Array | None = None,
    tolerance: float = 0.02,
    level: float = 0.8,
) -> Suggestion:
    """Say which clock to choose, and which to measure next.

    Args:
        model: Fitted, and adapted to what was measured of the application.
        profile: The application.
        goal: What is minimised.
        measured_mhz: Clocks that were measured; they are not asked for again.
        clocks_mhz: Clocks to choose among; ``None`` takes all of the GPU.
        tolerance: A relative regret that does not matter.
        level: Of the intervals that may hold the cost.

    Raises:
        ConfigError: As the model.
    """
    queries = sweep(profile, None if clocks_mhz is None else clocks_mhz.tolist())
    clocks = queries.sm_clock_mhz
    cost = model.predict(queries, goal)
    interval = model.predict_interval(queries, goal, level)
    best = int(np.argmin(cost))
    others = np.arange(len(clocks)) != best
    possible = np.log(interval.upper[best] / interval.lower) * others
    worst = float(np.expm1(max(possible.max(), 0.0)))
    known = np.zeros(0) if measured_mhz is None else measured_mhz
    fresh = ~np.isin(np.round(clocks, 3), np.round(known, 3))
    open_ = fresh & (interval.lower < interval.upper[best])
    settled = worst <= tolerance or not open_.any()
    worth = regrets_after(model, queries, goal)
    if worth is None:
        following = int(np.argmin(np.where(open_, interval.lower, np.inf)))
    else:
        following = _fastest_of_best(np.where(fresh, worth, np.inf), clocks)
    return Suggestion(
        best_mhz=float(clocks[best]),
        possible_regret=worst,
        next_mhz=None if settled else float(clocks[following]),
    )


def regrets_after(model: OperatingModel, queries: Queries, goal: Goal) -> Array | None:
    """Return the regret to be expected once each clock was measured besides.

    Args:
        model: Fitted, and adapted to what was measured of the application.
        queries: One profile at the clocks to choose among.
        goal: What is minimised.

    Returns:
        One number per query; ``None`` if the models are not laws whose curves can be drawn.
    """
    if not (isinstance(model.power, AnchoredModel) and isinstance(model.time, AnchoredModel)):
        return None
    power = model.power.drawn(queries, _NUM_CURVES, seed=1)
    time = model.time.drawn(queries, _NUM_CURVES, seed=2)
    return expected_regrets(power, time, TIME_EXPONENT[goal])


def settle(
    model: OperatingModel,
    profile: Profile,
    goal: Goal,
    measure: Callable[[float], Runs],
    *,
    clocks_mhz: Array | None = None,
    tolerance: float = 0.02,
    most: int = 6,
) -> tuple[Suggestion, Runs]:
    """Measure clock after clock until the choice is settled.

    Args:
        model: Fitted to other applications.
        profile: The application.
        goal: What is minimised.
        measure: Runs the application at a clock and returns the run; called with the clock of the
            profile first.
        clocks_mhz: Clocks to choose among; ``None`` takes all of the GPU.
        tolerance: A relative regret that does not matter.
        most: How many clocks are measured at most.

    Returns:
        The last suggestion, and all that was measured.

    Raises:
        ConfigError: If ``most`` is below 1.
    """
    if most < 1:
        raise ConfigError(f"most must be at least 1, got {most}.")
    runs = measure(profile.clock_mhz)
    while True:
        found = suggestion(
            model.adapt(runs),
            profile,
            goal,
            measured_mhz=runs.sm_clock_mhz,
            clocks_mhz=clocks_mhz,
            tolerance=tolerance,
        )
        if found.next_mhz is None or len(runs) >= most:
            return found, runs
        runs = joined(runs, measure(found.next_mhz))


def _fastest_of_best(worth: Array, clocks_mhz: Array) -> int:
    return int(np.argmax(np.where(worth <= worth.min() + _ALIKE, clocks_mhz, 0.0)))
