"""What a phase is expected to do at every point that could be set."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulelab.core.point import OperatingPoint
from joulelab.core.power_law import CAP_SHARE
from joulelab.governor.law import Array, BoardFigures, Counters, Prior, conditioned, draw_prior
from joulelab.governor.phase import DEFAULT, Phase, Tally

SURE = 1.645
"""So many standard deviations above what is expected, a normal variable is in one case of 20."""
_MOVED_CLOCK, _MOVED_POWER = 0.004, 0.03
"""A power limit lowers the driver's own clock as a board warms up; times are over that at it."""
_HELD_ROOM = 1.005
"""So far above the clock at which a limit holds a phase the limit holds it still."""
_LOWEST_RATIO = 0.2
_STEPS = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """A phase at every point, the driver's own first; shape ``(n,)`` each."""

    points: tuple[OperatingPoint, ...]  # what could be set
    places: dict[OperatingPoint, int]  # where each is among them
    sm_clock_mhz: Array
    time: Array  # expected time of the same work over that at the driver's own point
    time_upper: Array  # what that does not exceed with 95 % probability
    power_w: Array
    cost_u: Array  # standard deviation of the logarithm of a point's energy and time

    def time_at(self, sm_clock_mhz: Array) -> Array:
        """Return expected time at any clock, as long as at the nearest one beyond the ends."""
        order = np.argsort(self.sm_clock_mhz)
        return np.interp(sm_clock_mhz, self.sm_clock_mhz[order], self.time[order])


def candidate_points(
    clocks_mhz: Sequence[int], limits_w: tuple[float, float] | None, fixed: float | None = None
) -> tuple[OperatingPoint, ...]:
    """Return the points that are considered besides the driver's own, the highest first.

    Clocks, or lowest and highest limit, are given where these are turned; ``fixed`` must be among
    the points.
    """
    if limits_w is not None:
        watts = {*np.linspace(limits_w[1], limits_w[0], _STEPS).round(), fixed or limits_w[1]}
        return tuple(OperatingPoint(power_limit_w=float(w)) for w in sorted(watts, reverse=True))
    high = sorted((c for c in clocks_mhz if c >= _LOWEST_RATIO * max(clocks_mhz)), reverse=True)
    taken = {*high[:: max(1, round(len(high) / _STEPS))], *([] if fixed is None else [int(fixed)])}
    return tuple(OperatingPoint(sm_clock_mhz=clock) for clock in sorted(taken, reverse=True))


class Outlook:
    """Predicts phases at all points besides the driver's, from what was seen of them at some.

    The law is evaluated at the SM clocks ``grid_mhz``.
    """

    def __init__(
        self,
        figures: BoardFigures,
        points: tuple[OperatingPoint, ...],
        grid_mhz: Sequence[int],
    ) -> None:
        self._figures = figures
        self.points = points
        self._grid_mhz = np.array(sorted(grid_mhz, reverse=True), dtype=np.float64)
        self._priors: dict[int, tuple[Counters, Array, Prior]] = {}

    def curves(self, phase: Phase) -> Curves | None:
        """Return what is expected of ``phase``; ``None`` until the driver's own point is known."""
        reference = phase.reference
        if reference is None or not reference.is_known:
            return None
        grid_mhz, prior = self._prior(phase, reference)
        at, logs, u = _measured(phase, reference, grid_mhz)
        mean, sd = conditioned(prior, at, logs, u)
        num = len(grid_mhz)
        time, upper = np.exp(mean[:num]), np.exp(mean[:num] + SURE * sd[:num])
        # no work slows down by more than the clock does
        longest = grid_mhz[0] / grid_mhz
        if phase.is_idle:
            time, upper = np.ones(num), np.ones(num)
        elif not phase.is_countable:
            time, upper = longest, longest
        on_grid = _OnGrid(
            grid_mhz,
            np.minimum(time, longest),
            np.minimum(upper, longest),
            mean[num:],
            sd,
        )
        return on_grid.at(self.points)

    def held(self, phase: Phase) -> OperatingPoint:
        """Return the clock right above where a power limit holds a phase; the driver's own if none.

        The limit lowers the driver's own clock step by step, which takes longer than to set one.
        """
        reference, sets_clocks = phase.reference, any(p.sm_clock_mhz for p in self.points)
        if not phase.is_capped or reference is None or not sets_clocks:
            return DEFAULT
        above = self._grid_mhz[self._grid_mhz >= _HELD_ROOM * reference.sm_clock_mhz.mean]
        return OperatingPoint(sm_clock_mhz=int(above[-1])) if len(above) else DEFAULT

    def _prior(self, phase: Phase, reference: Tally) -> tuple[Array, Prior]:
        """Return the grid below the driver's own clock, and what the law says there."""
        counters = Counters(
            sm_clock_mhz=reference.sm_clock_mhz.mean,
            power_w=reference.power_w.mean,
            engine_active=phase.signature.engine,
            dram_active=phase.signature.rates[2] if phase.is_countable or phase.is_idle else None,
        )
        kept = self._priors.get(phase.number)
        if kept is None or _has_moved(kept[0], counters):
            below = self._grid_mhz[self._grid_mhz < 0.995 * counters.sm_clock_mhz]
            grid_mhz = np.concatenate([[counters.sm_clock_mhz], below])
            kept = counters, grid_mhz, draw_prior(self._figures, counters, grid_mhz)
            self._priors[phase.number] = kept
        return kept[1], kept[2]


def _has_moved(before: Counters, now: Counters) -> bool:
    clock, power = now.sm_clock_mhz / before.sm_clock_mhz, now.power_w / before.power_w
    return abs(clock - 1.0) > _MOVED_CLOCK or abs(power - 1.0) > _MOVED_POWER


def _measured(
    phase: Phase, reference: Tally, grid_mhz: Array
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return what was measured, where on the grid, and how surely."""
    at, logs, u = [len(grid_mhz)], [np.log(reference.power_w.mean)], [reference.power_w.relative_u]
    for point, tally in phase.tallies.items():
        if point == DEFAULT or not tally.is_known:
            continue
        place = int(np.abs(grid_mhz - tally.sm_clock_mhz.mean).argmin())
        if place == 0:
            continue
        at.append(len(grid_mhz) + place)
        logs.append(np.log(tally.power_w.mean))
        u.append(tally.power_w.relative_u)
        if phase.is_countable and not phase.is_idle:
            at.append(place)
            logs.append(np.log(reference.speed.mean / tally.speed.mean))
            u.append(np.hypot(reference.speed.relative_u, tally.speed.relative_u))
    return np.array(at), np.array(logs), np.array(u)


class _OnGrid:
    """A phase at the clocks of the grid, to be read off at points."""

    def __init__(
        self, clocks_mhz: Array, time: Array, upper: Array, log_power: Array, sd: Array
    ) -> None:
        num = len(clocks_mhz)
        self._clocks_mhz, self._time, self._upper = clocks_mhz, time, upper
        self._power_w = np.exp(log_power)
        self._power_upper_w = np.exp(log_power + SURE * sd[num:])
        self._cost_u = np.hypot(sd[:num], sd[num:])

    def at(self, points: tuple[OperatingPoint, ...]) -> Curves:
        """Return the curves over points; those that would change nothing are left out."""
        places = self._places(points, self._power_w)
        upper_places = self._places(points, self._power_upper_w)
        acts = np.flatnonzero(upper_places)
        at, upper_at = (np.concatenate([[0], each[acts]]) for each in (places, upper_places))
        kept = (DEFAULT, *(points[k] for k in acts))
        return Curves(
            points=kept,
            places={point: place for place, point in enumerate(kept)},
            sm_clock_mhz=self._clocks_mhz[at],
            time=self._time[at],
            time_upper=self._upper[upper_at],
            power_w=self._power_w[at],
            cost_u=self._cost_u[at],
        )

    def _places(self, points: tuple[OperatingPoint, ...], power_w: Array) -> NDArray[np.intp]:
        """Return where on the grid each point holds the clock; 0 if it does not."""
        if not points:
            return np.zeros(0, dtype=np.intp)
        if points[0].sm_clock_mhz is not None:
            wanted_mhz = np.array([point.sm_clock_mhz for point in points], dtype=np.float64)
            apart_mhz = np.abs(self._clocks_mhz - wanted_mhz[:, None])
            return np.where(wanted_mhz < self._clocks_mhz[0], apart_mhz.argmin(axis=1), 0)
        limits_w = np.array([point.power_limit_w for point in points], dtype=np.float64)
        fits = power_w <= CAP_SHARE * limits_w[:, None]
        return np.where(fits.any(axis=1), fits.argmax(axis=1), len(power_w) - 1)


def merged_time(curves: Curves | None, sm_clock_mhz: Array) -> Array:
    """Return time at clocks, the longest possible where nothing is known of a phase."""
    if curves is None:
        return np.asarray(sm_clock_mhz[0] / sm_clock_mhz)
    return curves.time_at(sm_clock_mhz)
