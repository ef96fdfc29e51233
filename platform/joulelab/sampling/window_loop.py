"""Run a load without pause and cut it into windows at the boundaries of its units."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import fmean

from joulelab.core.clock import Clock
from joulelab.sampling.meter import Edges

EDGE_PATIENCE_S = 2.0
"""How long the load runs on at most for the counter to show an edge."""
_NUM_RECENT = 8
"""Units from whose shortest the next edge is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """Whole units of work between two boundaries."""

    start_s: float
    stop_s: float
    work: float

    @property
    def time_per_work_s(self) -> float:
        """Time of a unit of the work that was counted."""
        return (self.stop_s - self.start_s) / self.work


class WindowLoop:
    """Runs one unit after the other, and notes where they begin and end.

    Nothing but the next unit happens at a boundary inside a batch of windows, so that the device is
    never left waiting for the one who measures it. ``run_unit`` does one unit to completion, and
    returns the work it did; ``edges`` times the windows' edges; ``check`` is called after every
    unit, and raises if measuring has become pointless.
    """

    def __init__(
        self,
        clock: Clock,
        run_unit: Callable[[], float],
        edges: Edges,
        check: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._run_unit = run_unit
        self._edges = edges
        self._check = check
        self._recent_s: deque[float] = deque(maxlen=_NUM_RECENT)
        self.units: list[TimeSpan] = []
        """Every unit so far, in order, warm-up included."""

    def run_until(self, done: Callable[[], bool], *, edge_s: float = inf) -> None:
        """Run units, at least one, until ``done`` says so at a boundary.

        From ``edge_s`` on an edge may follow, so that ticks are timed before it.
        """
        while True:
            self._edges.expect_edge(max(edge_s, self._clock.now_s()))
            self.unit()
            if done():
                break

    def windows(
        self, num_windows: int, window_s: float, *, watched_s: float | None = None
    ) -> list[TimeSpan]:
        """Run adjoining windows, at least 1, with the load on before, between and after them.

        Each ends with the first unit that reaches ``window_s``. Since ``watched_s`` an edge has
        been waited for; by default it is from now on.
        """
        start_s = self._run_in(watched_s)
        intervals = []
        for _ in range(num_windows):
            intervals.append(self._window(start_s, window_s))
            start_s = intervals[-1].stop_s
        self._bracket(start_s)
        return intervals

    def within(self, windows: Sequence[TimeSpan]) -> list[TimeSpan]:
        """Return the units of windows, which are in order."""
        start_s, stop_s = windows[0].start_s, windows[-1].stop_s
        return [unit for unit in self.units if start_s <= unit.start_s < stop_s]

    @property
    def unit_s(self) -> float:
        """Mean time of the latest units."""
        return fmean(self._recent_s)

    def unit(self) -> TimeSpan:
        """Run one unit."""
        start_s = self._clock.now_s()
        work = self._run_unit()
        unit = TimeSpan(start_s=start_s, stop_s=self._clock.now_s(), work=work)
        self.units.append(unit)
        self._recent_s.append(unit.stop_s - unit.start_s)
        self._check()
        return unit

    def _run_in(self, watched_s: float | None) -> float:
        """Run on until an edge may come at any boundary, and let it be the next one.

        Whoever judged the load just now left the device waiting meanwhile: the counter must tick
        once more, so that the edge lies between two ticks of the load alone.
        """
        begun_s = now_s = self._clock.now_s()
        ready_s = (begun_s if watched_s is None else watched_s) + self._edges.margin_s
        while not self._is_over(begun_s, ready_s) or now_s == begun_s:
            self._edges.expect_edge(self._expected_s(now_s, ready_s))
            now_s = self.unit().stop_s
        start_s = self._clock.now_s()
        self._edges.mark_edge(start_s)
        return start_s

    def _window(self, start_s: float, window_s: float) -> TimeSpan:
        work, stop_s = 0.0, start_s
        while stop_s < start_s + window_s:
            self._edges.expect_edge(self._expected_s(stop_s, start_s + window_s))
            unit = self.unit()
            work += unit.work
            stop_s = unit.stop_s
        self._edges.mark_edge(stop_s)
        return TimeSpan(start_s=start_s, stop_s=stop_s, work=work)

    def _bracket(self, since_s: float) -> None:
        """Run on until the counter has shown an edge at ``since_s``, or never will.

        It is asked for at once: a unit that began unasked would be followed by another one.
        """
        while not self._is_over(since_s, since_s + self._edges.margin_s):
            self.unit()

    def _is_over(self, since_s: float, ready_s: float) -> bool:
        now_s = self._clock.now_s()
        if now_s >= since_s + EDGE_PATIENCE_S:
            return True
        return self._edges.bracketed(since_s) and now_s >= ready_s

    def _expected_s(self, now_s: float, due_s: float) -> float:
        """When the first boundary at or after ``due_s`` may come at the earliest."""
        unit_s = min(self._recent_s, default=0.0)
        if unit_s == 0:
            return max(now_s, due_s)
        return now_s + max(1, ceil((due_s - now_s) / unit_s)) * unit_s
