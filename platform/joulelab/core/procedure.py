"""How a measurement is made: waiting, warming up, repeating, and when to stop."""

from dataclasses import dataclass, replace
from typing import Literal

from joulelab.core.bounds import DAY_S, HOUR_S, check_positive, check_range
from joulelab.errors import ConfigError

MOST_WINDOWS = 100_000

Pace = Literal["reference", "quick"]
"""From rest, with a whole warm-up; or right after the same program ran at another point."""

_LENGTHS = (
    *("idle_s", "start_below_c", "settle_s", "warmup_min_s", "warmup_max_s"),
    *("window_s", "min_windows", "limit_s", "pace", "quick_window_s"),
)

LONGEST_FOLLOWING_S = 1.5
"""Longest warm-up after a rest: what cools and warms more slowly than the die's seconds, the sink,
was hardly cooled by the rest."""

SEARCH_WINDOW_S, SEARCH_RELATIVE_CI = 0.2, 0.02
"""A search repeats what may be the best, so that precision elsewhere would be wasted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """Under what, how long to wait and how often to repeat; every length in seconds.

    Waits and windows are an hour long at most, and whatever bounds them a day: what would take
    longer is a slip of the hand.

    Attributes:
        power_limit_w: Board power limit, in watts, under which every operating point is measured
            that names none, as where a site runs its GPUs below their default; ``None`` for the
            driver's default.
        idle_s: Idle window before the load, in the same process at the same clock; 0 skips it.
        start_below_c: Temperature that the board must be below before each trial (0 to 200);
            ``None`` does not wait.
        cool_max_s: Longest wait for that; a board still hotter then is not measured.
        settle_s: Wait after a new operating point has read back, besides two counter ticks.
        warmup_min_s: Shortest warm-up under load.
        warmup_max_s: Longest warm-up; a load not steady by then is measured and marked so.
        window_s: Shortest length of one window; windows hold whole units of work.
        min_windows: Windows that are always taken; they must fit into a day.
        limit_s: Windows are added until ``relative_ci`` is reached or this much time is used.
        relative_ci: Half-width of the 95 % confidence interval of energy per unit, relative,
            at which no more windows are added (0 to 1); 0 takes all of ``limit_s``. Searches of
            which no length here was changed take 0.02 for the usual 0.01.
        sample_period_s: Period of polled readings (0.01 to 1); ``None`` takes the driver's
            own buffered power samples and looks at clocks and temperatures every 200 ms.
        sampler_budget: Share of one core that the sampler may take before it slows itself (0 to 1).
        pace: quick measures a point whose program has just run at another one, or with other
            settings, on the same board: no idle window, a warm-up that ends once time and power
            are steady, three windows and more only where ``relative_ci`` needs them. A
            board that had to rest for that, as while weights are loaded, is warmed for as long as
            it rested, up to 1.5 s. What this way is unsteady or invalid takes the whole procedure,
            and so does what an idle window is due before (``idle_s``): another program, or one
            whose board has rested for half a minute. ``None`` takes reference, and where no length
            here was changed quick in sweeps, and in searches, these without idle windows.
        quick_window_s: Length of a window of a quick point, to the nearest end of a unit, and two
            ticks of the energy counter at least. Searches of which no length here was changed take
            0.2: they repeat what may be the best.
        sample_lag_s: By how much the driver's power samples come later than the time that they are
            means of (0 to 1), as a board's calibration finds: a quick warm-up goes on for twice
            that, so that it is not judged by what was drawn before it.
    """

    power_limit_w: float | None = None
    idle_s: float = 5.0
    start_below_c: float | None = None
    cool_max_s: float = 120.0
    settle_s: float = 0.5
    warmup_min_s: float = 3.0
    warmup_max_s: float = 60.0
    window_s: float = 2.0
    min_windows: int = 3
    limit_s: float = 60.0
    relative_ci: float = 0.01
    sample_period_s: float | None = None
    sampler_budget: float = 0.02
    pace: Pace | None = None
    quick_window_s: float = 0.3
    sample_lag_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("idle_s", "settle_s", "warmup_min_s", "warmup_max_s"):
            check_range(name, getattr(self, name), 0, HOUR_S)
        for name in ("cool_max_s", "limit_s"):
            check_range(name, getattr(self, name), 0, DAY_S)
        for name in ("relative_ci", "sampler_budget"):
            check_range(name, getattr(self, name), 0, 1)
        check_range("sample_lag_s", self.sample_lag_s, 0, 1)
        check_range("start_below_c", self.start_below_c, 0, 200)
        check_range("sample_period_s", self.sample_period_s, 0.01, 1)
        check_positive("window_s", self.window_s, HOUR_S)
        check_positive("quick_window_s", self.quick_window_s, HOUR_S)
        check_range("min_windows", self.min_windows, 1, MOST_WINDOWS)
        if self.min_windows * self.window_s > DAY_S:
            raise ConfigError(
                f"min_windows of window_s must fit into a day of {DAY_S:g} s, got "
                f"{self.min_windows} of {self.window_s:g} s."
            )

    def in_search(self) -> "Procedure":
        """Return how a search measures: quickly from its first trial on, unless asked otherwise.

        It compares gross energies, so that no idle window is due. Whoever asks for a pace, or for
        other lengths than usual, is given these.
        """
        if not self._is_usual:
            return self
        found = replace(self, pace="quick", idle_s=0.0, quick_window_s=SEARCH_WINDOW_S)
        if self.relative_ci != Procedure().relative_ci:
            return found
        return replace(found, relative_ci=SEARCH_RELATIVE_CI)

    def in_sweep(self) -> "Procedure":
        """Return how a sweep measures: quickly after a program's first trial on a board.

        Whoever asks for a pace, or for other lengths than usual, is given these.
        """
        return replace(self, pace="quick") if self._is_usual else self

    @property
    def _is_usual(self) -> bool:
        usual = Procedure()
        return all(getattr(self, name) == getattr(usual, name) for name in _LENGTHS)

    def following(self, rested_s: float = 0.0) -> "Procedure":
        """Return how a point is measured after the same program ran at another one.

        ``rested_s`` is how long the board has rested since.
        """
        warmup_s = min(max(rested_s, 0.3), LONGEST_FOLLOWING_S) + 2 * self.sample_lag_s
        return replace(
            self,
            pace="quick",
            idle_s=0.0,  # the board is warm: what it draws at rest now is no idle power
            settle_s=0.0,
            warmup_min_s=warmup_s,
            warmup_max_s=warmup_s + 1.2,
            window_s=self.quick_window_s,
            min_windows=3,
            limit_s=3.0,
        )
