"""Choose the clock: the best of a sweep by energy, EDP or ED2P, and what a choice costs."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from joulelab.errors import ConfigError, MeasurementError
from joulelab.power_models.operating_model import TIME_EXPONENT
from joulelab.power_models.runs import Array

Goal = Literal["energy_j", "edp_js", "ed2p_js2"]
"""What is minimised."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """Power and time of one application over clocks, measured or predicted.

    Attributes:
        sm_clock_mhz: Clocks; shape ``(n,)``.
        power_w: Power; not a number where it is missing.
        time_s: Time; not a number where it is missing.
    """

    sm_clock_mhz: Array
    power_w: Array
    time_s: Array

    def __post_init__(self) -> None:
        shapes = {self.sm_clock_mhz.shape, self.power_w.shape, self.time_s.shape}
        if len(shapes) != 1 or self.sm_clock_mhz.ndim != 1:
            raise ConfigError(f"Columns of a sweep must have one shape (n,), got {sorted(shapes)}.")

    @property
    def usable(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which rows have a positive power and time: a zero is a failed reading."""
        known = (
            np.isfinite(self.power_w) & np.isfinite(self.time_s) & np.isfinite(self.sm_clock_mhz)
        )
        return np.asarray(known & (self.power_w > 0) & (self.time_s > 0))

    def cost(self, goal: Goal) -> Array:
        """Return the cost of each row; infinite where a row is not usable.

        Raises:
            ConfigError: If there is no such goal.
        """
        if goal not in get_args(Goal):
            raise ConfigError(f"goal must be one of {get_args(Goal)}, got {goal!r}.")
        cost = np.full(self.power_w.shape, np.inf)
        usable = self.usable
        time_s = self.time_s[usable]
        cost[usable] = self.power_w[usable] * time_s ** TIME_EXPONENT[goal]
        return cost

    def best(self, goal: Goal, *, slowest_s: float | None = None) -> int:
        """Return the position of the row with the least cost; of equals the fastest.

        Args:
            goal: What is minimised.
            slowest_s: Rows that take longer are left out; ``None`` leaves none out.

        Raises:
            MeasurementError: If no row is usable, or all take too long.
        """
        cost = self.cost(goal)
        if slowest_s is not None:
            cost = np.where(self.time_s <= slowest_s, cost, np.inf)
        if not np.isfinite(cost).any():
            raise MeasurementError(
                "At least one clock with positive power and time is required"
                + ("" if slowest_s is None else f" that takes at most {slowest_s:g} s")
                + f", got none of {len(cost)}."
            )
        least = np.flatnonzero(cost <= cost.min() * (1 + 1e-12))
        return int(least[np.argmin(self.time_s[least])])


def regret(measured: Sweep, chosen_mhz: float, goal: Goal) -> float:
    """Return how much more the chosen clock costs than the best one did, relative.

    Both are looked up among what was measured, at the measured clock nearest to the chosen one.

    Raises:
        MeasurementError: If nothing usable was measured.
    """
    return float(_regrets(measured, np.array([chosen_mhz]), goal)[0])


def best_fixed_clock_mhz(sweeps: list[Sweep], goal: Goal) -> float:
    """Return the one clock with the least mean regret over ``sweeps``.

    Raises:
        ConfigError: If there is no sweep.
    """
    if not sweeps:
        raise ConfigError("At least one sweep is required to choose a fixed clock, got none.")
    clocks = np.unique(np.concatenate([sweep.sm_clock_mhz for sweep in sweeps]))
    mean = np.mean([_regrets(sweep, clocks, goal) for sweep in sweeps], axis=0)
    return float(clocks[int(np.argmin(mean))])


def _regrets(measured: Sweep, chosen_mhz: Array, goal: Goal) -> Array:
    cost = measured.cost(goal)
    best = cost[measured.best(goal)]
    distance = np.abs(measured.sm_clock_mhz[:, None] - chosen_mhz[None, :])
    distance = np.where(np.isfinite(cost)[:, None], distance, np.inf)
    return np.asarray(cost[np.argmin(distance, axis=0)] / best - 1.0)
