"""How a measurement is made: waiting, warming up, repeating, and when to stop."""

from dataclasses import dataclass, fields

from joulelab.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """Under what, how long to wait and how often to repeat; every length in seconds.

    Attributes:
        power_limit_w: Board power limit, in watts, under which every operating point is measured
            that names none, as where a site runs its GPUs below their default; ``None`` for the
            driver's default.
        idle_s: Idle window before the load, in the same process at the same clock; 0 skips it.
        start_below_c: Temperature that the board must be below before each trial; ``None`` does
            not wait.
        cool_max_s: Longest wait for that; a board still hotter then is not measured.
        settle_s: Wait after a new operating point has read back, besides two counter ticks.
        warmup_min_s: Shortest warm-up under load.
        warmup_max_s: Longest warm-up; a load not steady by then is measured and marked so.
        window_s: Shortest length of one window; windows hold whole units of work.
        min_windows: Windows that are always taken.
        limit_s: Windows are added until ``relative_ci`` is reached or this much time is used.
        relative_ci: Half-width of the 95 % confidence interval of energy per unit, relative,
            at which no more windows are added.
        sample_period_s: Period of polled readings (0.01 to 1); ``None`` takes the driver's
            own buffered power samples and looks at clocks and temperatures every 200 ms.
        sampler_budget: Share of one core that the sampler may take before it slows itself.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value >= 0:
                raise ConfigError(f"{field.name} must not be negative, got {value}.")
        if not self.window_s > 0 or self.min_windows < 1:
            raise ConfigError(
                "window_s must be positive and min_windows at least 1, "
                f"got {self.window_s} and {self.min_windows}."
            )
        if self.sample_period_s is not None and not 0.01 <= self.sample_period_s <= 1:
            raise ConfigError(
                f"sample_period_s must be within 0.01 and 1, got {self.sample_period_s}."
            )
