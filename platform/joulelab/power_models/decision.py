"""Choose the clock: the best of a sweep by energy, EDP or ED2P, and what a choice costs.

The least of many scattered costs is lower than any of them is: a choice that could not be better
seems to be worse than the luckiest point (the winner's curse). So regrets are compared with those
of choices that need no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError, MeasurementError
from joulelab.hardware.spec import GpuSpec
from joulelab.objectives import without_quality
from joulelab.power_models.calibration import SECOND_POINT, Interval
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Flags, Index, Names, Runs

CHOSEN_BY = ("energy", "edp", "ed2p")
"""Objectives by which models are judged."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """Power and time of one application over clocks, not a number where missing, each ``(n,)``."""

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

    def rows(self, chosen: Index) -> "Sweep":
        """Return some of the rows."""
        columns = (self.sm_clock_mhz[chosen], self.power_w[chosen], self.time_s[chosen])
        return Sweep(sm_clock_mhz=columns[0], power_w=columns[1], time_s=columns[2])

    def cost(self, objective: str) -> Array:
        """Return the cost of each row; infinite where a row is not usable.

        Raises ConfigError if there is no such objective, or quality counts in it.
        """
        of = without_quality(objective)
        cost = np.full(self.power_w.shape, np.inf)
        usable = self.usable
        time_s = self.time_s[usable]
        cost[usable] = of.cost(self.power_w[usable] * time_s, time_s)
        return cost

    def best(self, objective: str) -> int:
        """Return the position of the row with the least cost; of equals the fastest.

        Raises MeasurementError if no row is usable.
        """
        cost = self.cost(objective)
        if not np.isfinite(cost).any():
            raise MeasurementError(
                f"At least one clock with positive power and time is required, got none of "
                f"{len(cost)}."
            )
        least = np.flatnonzero(cost <= cost.min() * (1 + 1e-12))
        return int(least[np.argmin(self.time_s[least])])


def regret(measured: Sweep, chosen_mhz: float, objective: str) -> float:
    """Return how much more the chosen clock costs than the best one did, relative.

    Both are looked up among what was measured, at the measured clock nearest to the chosen one.
    Raises MeasurementError if nothing usable was measured.
    """
    return float(_regrets(measured, np.array([chosen_mhz]), objective)[0])


def best_fixed_clock_mhz(sweeps: Sequence[Sweep], objective: str) -> float:
    """Return the one clock with the least mean regret over ``sweeps``.

    Raises ConfigError if there is no sweep.
    """
    clocks_mhz, regrets = fixed_regrets(sweeps, objective)
    return float(clocks_mhz[int(np.argmin(regrets.mean(axis=0)))])


def fixed_regrets(sweeps: Sequence[Sweep], objective: str) -> tuple[Array, Array]:
    """Return all clocks of ``sweeps``, and the regret of each for each, shape (sweeps, clocks).

    Raises ConfigError if there is no sweep.
    """
    if not sweeps:
        raise ConfigError("At least one sweep is required to choose a fixed clock, got none.")
    clocks_mhz = np.unique(np.concatenate([sweep.sm_clock_mhz for sweep in sweeps]))
    return clocks_mhz, np.array([_regrets(sweep, clocks_mhz, objective) for sweep in sweeps])


def _regrets(measured: Sweep, chosen_mhz: Array, objective: str) -> Array:
    cost = measured.cost(objective)
    best = cost[measured.best(objective)]
    distance = np.abs(measured.sm_clock_mhz[:, None] - chosen_mhz[None, :])
    distance = np.where(np.isfinite(cost)[:, None], distance, np.inf)
    return np.asarray(cost[np.argmin(distance, axis=0)] / best - 1.0)


def measured_sweep(runs: Runs) -> Sweep:
    """Return the rows of one application on one GPU as a sweep."""
    return Sweep(sm_clock_mhz=runs.sm_clock_mhz, power_w=runs.power_w, time_s=runs.time_s)


def best_fixed_ratios(
    queries: Queries, power_w: Array, time_s: Array, unit_mhz: Array | None = None
) -> dict[str, float]:
    """Return the one clock ratio with the least mean regret over profiles, by objective.

    Power and time are what was measured at the queries, and ``unit_mhz`` is what the clock of each
    is taken over, shapes ``(n,)``; ``None`` takes the clocks of the profiles.
    """
    ratio = queries.clock_ratio if unit_mhz is None else queries.sm_clock_mhz / unit_mhz
    ratio = np.round(ratio, 4)
    sweeps = [
        Sweep(sm_clock_mhz=ratio[rows], power_w=power_w[rows], time_s=time_s[rows])
        for _, rows in queries.by_profile()
    ]
    return {objective: best_fixed_clock_mhz(sweeps, objective) for objective in CHOSEN_BY}


def ridge_mhz(spec: GpuSpec) -> float:
    """Return the clock above which the voltage rises; not a number where it is an estimate."""
    is_known = spec.figures["voltage.ridge_mhz"].status in "SF"
    return spec.voltage.ridge_mhz if is_known else np.nan


NEXT_TO = 0.01
"""How far (relative) from a measured clock another is next to it, half a step of any GPU's."""


def is_tried(log_ratio: Array, anchors: Sequence[float]) -> Flags:
    """Return which clocks models can tell of: from 0.6 of the profile's, or the lowest measured.

    Args:
        log_ratio: Logs of their ratios to the clock of the profile.
        anchors: Those of what was measured.
    """
    lowest = min((float(np.log(SECOND_POINT)), *anchors))
    return np.asarray(log_ratio >= lowest - NEXT_TO)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedClock:
    """A share of a clock that is to be trusted more than any predicted best."""

    ratio: float
    of_mhz: float
    of: str  # which clock that is, for messages
    why: str  # it is trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorScores:
    """How far predictions are off, relative to the measured value, without signs.

    ``mean`` and ``p95`` (percentile) are over rows; median and worst are of applications' means.
    """

    mean: float
    median_application: float
    worst_application: float
    p95: float
    worst_name: str
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalScores:
    """How good intervals are that promise to cover ``level``.

    ``coverage`` is the mean over applications of the share of rows covered,
    ``whole_applications`` the share of those with all rows covered; ``half_width`` is in logs.
    """

    level: float
    coverage: float
    whole_applications: float
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretScores:
    """What the chosen clocks cost over the best ones, relative, over applications."""

    mean: float
    median: float
    worst: float


def error_scores(measured: Array, predicted: Array, application: Names) -> ErrorScores:
    """Score predictions.

    Raises ConfigError if there are none.
    """
    if not len(measured):
        raise ConfigError("At least one prediction is required to score, got none.")
    error = np.abs(predicted / measured - 1.0)
    means = {name: float(error[application == name].mean()) for name in np.unique(application)}
    worst = max(means, key=lambda name: means[name])
    return ErrorScores(
        mean=float(error.mean()),
        median_application=float(np.median(list(means.values()))),
        worst_application=means[worst],
        p95=float(np.percentile(error, 95)),
        worst_name=str(worst),
        num_rows=len(error),
    )


def interval_scores(
    measured: Array, intervals: Sequence[Interval], application: Names
) -> IntervalScores:
    """Score intervals, concatenated in the order of ``measured``."""
    lower = np.concatenate([interval.lower for interval in intervals])
    upper = np.concatenate([interval.upper for interval in intervals])
    covered = (lower <= measured) & (measured <= upper)
    shares = [covered[application == name].mean() for name in np.unique(application)]
    return IntervalScores(
        level=intervals[0].level,
        coverage=float(np.mean(shares)),
        whole_applications=float(np.mean([share == 1.0 for share in shares])),
        half_width=float(np.mean(np.log(upper / lower) / 2)),
    )


def regret_scores(regrets: Sequence[float]) -> RegretScores:
    """Score the regrets of the applications."""
    values = np.array(regrets, dtype=float)
    return RegretScores(
        mean=float(values.mean()), median=float(np.median(values)), worst=float(values.max())
    )
