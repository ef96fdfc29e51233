"""When an energy counter ticked, from polls that saw it before and after.

A driver's energy counter stands still and then jumps (every 100 ms on an H200), and a read
may take milliseconds. A jump is therefore known only to lie between the last poll that still
showed the old value and the first that showed the new one. Because the jumps are periodic,
all those brackets together pin their common phase far better than any of them alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError

Array = NDArray[np.float64]

_AGREEMENT = 0.8
"""Share of the brackets that must admit one common phase before the phase is believed."""

_UNEVENNESS = 0.1
"""How far ticks may stray, in periods, without their number being in doubt."""
_WELL_KNOWN = 0.01
"""Relative width of bounds of a period that tell more of it than a few brackets do."""
_NUM_NARROW = 64
"""Brackets that the steepness of the line through all of them is bounded by."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CounterPolls:
    """Successive reads of an energy counter, each timed on both sides."""

    before_s: Array  # times just before each read, shape (n,), strictly increasing
    after_s: Array  # times just after each read, shape (n,), on the same clock
    energy_j: Array  # what was read, shape (n,), in joules since an arbitrary origin

    def __post_init__(self) -> None:
        if self.before_s.ndim != 1 or not (
            self.before_s.shape == self.after_s.shape == self.energy_j.shape
        ):
            raise ConfigError("before_s, after_s and energy_j must be 1-D and of equal length.")
        if (np.diff(self.before_s) <= 0).any() or (self.after_s < self.before_s).any():
            raise ConfigError("Polls must follow each other, and each must end after it began.")

    @classmethod
    def of(cls, polls: Sequence[tuple[float, float, float]]) -> "CounterPolls":
        """Build from ``(before_s, after_s, energy_j)`` rows."""
        before_s, after_s, energy_j = np.array(polls, dtype=np.float64).reshape(-1, 3).T
        return cls(before_s=before_s, after_s=after_s, energy_j=energy_j)

    def __len__(self) -> int:
        return int(self.before_s.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ticks:
    """Instants at which the counter took the values that were seen."""

    earliest_s: Array  # lower ends of the brackets, shape (n,)
    latest_s: Array  # upper ends, shape (n,)
    energy_j: Array  # value that the counter took, shape (n,), strictly increasing
    period_s: float | None  # time between ticks; None where the counter showed no period

    def __len__(self) -> int:
        return int(self.energy_j.size)

    @property
    def time_s(self) -> Array:
        """Middles of the brackets, shape ``(n,)``."""
        return (self.earliest_s + self.latest_s) / 2

    @property
    def time_u_s(self) -> Array:
        """Standard uncertainties of :attr:`time_s`: rectangular distributions (GUM 4.3.7)."""
        return (self.latest_s - self.earliest_s) / sqrt(12)


def find_ticks(polls: CounterPolls, *, known_s: tuple[float, float] | None = None) -> Ticks:
    """Find when the counter, which never decreases, took each value that ``polls`` saw it take.

    Polls may be dense in places and sparse in others. A counter that updates at every read is found
    to have no period, and each read is then its own tick. ``known_s`` is the shortest and the
    longest that the period can be, in seconds, by what was seen earlier: for polls that do not show
    it themselves, or less well.
    """
    new = 1 + np.flatnonzero(np.diff(polls.energy_j))
    earliest_s, latest_s = polls.before_s[new - 1], polls.after_s[new]
    last = np.append(new[1:] - 1, len(polls) - 1)[: new.size]
    neighbours = _sharp_neighbours(earliest_s, latest_s)
    period_s, bounds_s = None, (0.0, np.inf)
    if known_s is not None and known_s[1] <= (1 + _WELL_KNOWN) * known_s[0]:
        neighbours, bounds_s = neighbours[:0], known_s
    if neighbours.size >= 2:
        period_s = float(np.median(np.diff((earliest_s + latest_s) / 2)[neighbours]))
        stale_s = float(np.median((latest_s[1:] - earliest_s[:-1])[neighbours]))
    elif known_s is not None:
        longest_read_s = float((polls.after_s - polls.before_s).max())
        period_s, stale_s = sum(known_s) / 2, known_s[1] + longest_read_s
    else:
        stale_s = _closest_spacing_s(polls)
    # A value is the counter's latest when it is last seen, so it is younger than one tick.
    wide = latest_s - earliest_s > stale_s
    youngest_s = np.maximum(earliest_s, polls.before_s[last] - stale_s)
    earliest_s = np.where(wide, youngest_s, earliest_s)
    if period_s is not None:
        earliest_s, latest_s, period_s = _tightened(
            earliest_s, latest_s, polls.before_s[last], period_s, bounds_s
        )
    return Ticks(
        earliest_s=earliest_s,
        latest_s=latest_s,
        energy_j=polls.energy_j[new],
        period_s=period_s,
    )


def _sharp_neighbours(earliest_s: Array, latest_s: Array) -> NDArray[np.intp]:
    """First of each pair of ticks in a row that polls much denser than ticks have seen."""
    distance_s = np.diff((earliest_s + latest_s) / 2)
    width_s = latest_s - earliest_s
    return np.flatnonzero(np.maximum(width_s[1:], width_s[:-1]) < distance_s / 2)


def _closest_spacing_s(polls: CounterPolls) -> float:
    """How old a value can be if the counter changed between nearly all of its polls."""
    spacing_s, changed = np.diff(polls.before_s), np.diff(polls.energy_j) > 0
    if spacing_s.size < 2 or changed.mean() < 0.9:
        return float("inf")
    return float(np.quantile(spacing_s[changed], 0.25))


def _tightened(
    earliest_s: Array,
    latest_s: Array,
    seen_s: Array,
    period_s: float,
    bounds_s: tuple[float, float],
) -> tuple[Array, Array, float | None]:
    """Narrow every bracket to where a strict period can have put its tick.

    A value is that of the newest tick when it is last seen, at ``seen_s``. Only if most brackets
    share one phase; those that do not keep what they are.
    """
    sharp = np.flatnonzero(latest_s - earliest_s < period_s / 2)
    if sharp.size < 2:
        return earliest_s, latest_s, period_s
    number = _numbered(earliest_s[sharp], latest_s[sharp], period_s, bounds_s)
    if number is None:
        return earliest_s, latest_s, period_s
    period_s = _fitted_period_s(number, earliest_s[sharp], latest_s[sharp])
    low_s, high_s = earliest_s[sharp] - number * period_s, latest_s[sharp] - number * period_s
    start_s, stop_s, votes = _common_interval(low_s, high_s)
    if votes < _AGREEMENT * sharp.size:
        return earliest_s, latest_s, period_s
    miss_s = np.maximum(0, np.maximum(low_s - stop_s, start_s - high_s))
    jitter_s = 2 * float(np.sqrt(np.mean(miss_s**2)))
    agree = miss_s == 0
    tick = np.round((earliest_s + latest_s - start_s - stop_s) / (2 * period_s))
    lower_s, upper_s = _bounds_s(number[agree], low_s[agree], high_s[agree], tick)
    lower_s, upper_s = lower_s - jitter_s, upper_s + jitter_s
    tick, known = _certain_numbers(
        np.maximum(
            np.ceil((earliest_s - upper_s) / period_s), np.floor((seen_s - upper_s) / period_s)
        ),
        np.floor((latest_s - lower_s) / period_s),
    )
    narrow_earliest_s = np.maximum(earliest_s, tick * period_s + lower_s)
    narrow_latest_s = np.minimum(latest_s, tick * period_s + upper_s)
    fits = known & (narrow_earliest_s <= narrow_latest_s)
    return (
        np.where(fits, narrow_earliest_s, earliest_s),
        np.where(fits, narrow_latest_s, latest_s),
        period_s,
    )


def _certain_numbers(least: Array, most: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Numbers of ticks that lie between bounds and increase, and which are certain."""
    order = np.arange(least.size)
    least = np.maximum.accumulate(least - order) + order
    most = np.minimum.accumulate((most - order)[::-1])[::-1] + order
    return most, least == most


def _bounds_s(number: Array, low_s: Array, high_s: Array, at: Array) -> tuple[Array, Array]:
    """Bounds at ``at`` on every line that passes between ``low_s`` and ``high_s``.

    From lines that pivot on one side, and from how steep a line can be that passes between both.
    """
    flattest, steepest = _slopes(number, low_s, high_s)
    steps = at[:, None] - number
    rise_s = np.stack((steps * flattest, steps * steepest))
    lower_s = (low_s + rise_s.min(axis=0)).max(axis=1)
    upper_s = (high_s + rise_s.max(axis=0)).min(axis=1)
    return (
        np.fmax(lower_s, -_convex_minorant(number, -low_s, at)),
        np.fmin(upper_s, _convex_minorant(number, high_s, at)),
    )


def _slopes(number: Array, low_s: Array, high_s: Array) -> tuple[float, float]:
    """Slopes of the flattest and the steepest line that the narrowest brackets allow."""
    narrow = np.argsort(high_s - low_s, kind="stable")[:_NUM_NARROW]
    steps = number - number[narrow, None]
    later = steps > 0
    if not later.any():
        return -np.inf, np.inf
    flattest = ((low_s - high_s[narrow, None])[later] / steps[later]).max()
    steepest = ((high_s - low_s[narrow, None])[later] / steps[later]).min()
    return float(min(flattest, steepest)), float(max(flattest, steepest))


def _convex_minorant(x: Array, y: Array, at: Array) -> Array:
    """Value at ``at`` of the lower convex hull of points sorted by ``x`` (Andrew's chain).

    No straight line below all points is above it. Infinite beyond the points.
    """
    hull: list[int] = []
    for i in range(x.size):
        while len(hull) >= 2:
            a, b = hull[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return np.interp(at, x[hull], y[hull], left=np.inf, right=np.inf)


def _numbered(
    earliest_s: Array,
    latest_s: Array,
    period_s: float,
    bounds_s: tuple[float, float] = (0.0, np.inf),
) -> Array | None:
    """Count periods from the first tick to each; ``None`` where that leaves a choice.

    Shorter gaps are counted first: what they tell of the period is what longer ones need. Brackets
    of half a period at most put the middles of two ticks in a row closer than 1.5 periods.
    """
    gaps_s = np.stack((earliest_s[1:] - latest_s[:-1], latest_s[1:] - earliest_s[:-1]))
    steps = np.zeros(gaps_s.shape[1])
    near = gaps_s.mean(axis=0) < 1.5 * period_s
    low_s = high_s = period_s
    if near.any():
        low_s, high_s = (float(bound) for bound in np.median(gaps_s[:, near], axis=1))
    low_s, high_s = max(low_s, bounds_s[0]), min(high_s, bounds_s[1])
    for i in np.argsort(gaps_s.sum(axis=0), kind="stable"):
        steps[i] = 1
        if not near[i]:
            steps[i] = least = max(1, ceil(gaps_s[0, i] / high_s - _UNEVENNESS))
            # Ticks at the reads themselves leave the least period at nothing.
            if not low_s or least < floor(gaps_s[1, i] / low_s + _UNEVENNESS):
                return None
        first, last = _counted_around(steps, int(i))
        num = steps[first:last].sum()
        low_s = max(low_s, (earliest_s[last] - latest_s[first]) / num)
        high_s = min(high_s, (latest_s[last] - earliest_s[first]) / num)
        low_s, high_s = min(low_s, high_s), max(low_s, high_s)
    return np.concatenate(([0.0], np.cumsum(steps)))


def _counted_around(steps: Array, gap: int) -> tuple[int, int]:
    """First and last tick of the run around ``gap`` in which every gap has been counted."""
    open_gaps = np.flatnonzero(steps == 0)
    place = int(np.searchsorted(open_gaps, gap))
    first = int(open_gaps[place - 1]) + 1 if place > 0 else 0
    last = int(open_gaps[place]) if place < open_gaps.size else steps.size
    return first, last


def _fitted_period_s(number: Array, earliest_s: Array, latest_s: Array) -> float:
    """Slope of the line through the brackets, by projections onto convex sets.

    Fitting a line to points and moving each point back into its bracket, in turns, ends at a
    line through all brackets if there is one, and else at the one that misses them least.
    """
    centred = number - number.mean()
    weight = centred / (centred**2).sum()
    line_s = (earliest_s + latest_s) / 2
    slope_s = float(weight @ line_s)
    for _ in range(50):
        line_s = np.clip(line_s.mean() + slope_s * centred, earliest_s, latest_s)
        slope_s = float(weight @ line_s)
    return slope_s


def _common_interval(low_s: Array, high_s: Array) -> tuple[float, float, int]:
    """Interval that lies in the most brackets, and in how many (Marzullo's algorithm)."""
    ends_s = np.concatenate((low_s, high_s))
    step = np.repeat([1, -1], low_s.size)
    order = np.lexsort((-step, ends_s))
    depth = np.cumsum(step[order])
    best = int(np.argmax(depth))
    return float(ends_s[order[best]]), float(ends_s[order[best + 1]]), int(depth[best])
