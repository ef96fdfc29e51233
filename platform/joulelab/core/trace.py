"""What a device did over time: its power and the integral of it, and all else that was read."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from joulelab.core.device import Activity, Look
from joulelab.errors import ConfigError, TraceCoverageError


@dataclass(frozen=True, slots=True, eq=False)
class PowerTrace:
    """Power of one device at increasing times.

    Attributes:
        t_s: Sample times, shape ``(n,)``, strictly increasing, in seconds on the
            device's monotonic clock.
        power_w: Power at those times, shape ``(n,)``, in watts.
    """

    t_s: NDArray[np.float64]
    power_w: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.t_s.ndim != 1 or self.t_s.shape != self.power_w.shape:
            raise ConfigError(
                "t_s and power_w must be 1-D and of equal length, "
                f"got shapes {self.t_s.shape} and {self.power_w.shape}."
            )
        if not (np.isfinite(self.t_s).all() and np.isfinite(self.power_w).all()):
            raise ConfigError("t_s and power_w must be finite.")
        if (self.t_s[1:] <= self.t_s[:-1]).any():
            raise ConfigError("t_s must be strictly increasing.")

    def __len__(self) -> int:
        return int(self.t_s.size)

    def spans(self, start_s: float, stop_s: float) -> bool:
        """Whether the trace holds samples at or beyond both ends of the interval."""
        return len(self) >= 2 and bool(self.t_s[0] <= start_s and stop_s <= self.t_s[-1])

    def longest_gap_s(self, start_s: float, stop_s: float) -> float:
        """Longest time between neighbouring samples that touches the interval, in seconds.

        Raises TraceCoverageError if the trace does not span the interval.
        """
        self._require_span(start_s, stop_s)
        first = int(np.searchsorted(self.t_s, start_s, side="right")) - 1
        last = int(np.searchsorted(self.t_s, stop_s, side="left"))
        return float(np.diff(self.t_s[first : last + 1]).max())

    def energy_j(self, start_s: float, stop_s: float) -> float:
        """Integrate power from ``start_s`` to ``stop_s`` by the trapezoidal rule.

        Power at the two ends is linearly interpolated, so the result does not depend
        on how the interval falls between samples.

        Args:
            start_s: Start of the interval, on the clock of :attr:`t_s`.
            stop_s: End of the interval, after ``start_s``.

        Returns:
            Energy in joules.

        Raises:
            ConfigError: If ``stop_s <= start_s``.
            TraceCoverageError: If the trace does not span the interval. Extrapolating
                would invent energy that nobody measured.
        """
        if stop_s <= start_s:
            raise ConfigError(f"stop_s must be after start_s, got {start_s=} and {stop_s=}.")
        self._require_span(start_s, stop_s)
        inside = (self.t_s > start_s) & (self.t_s < stop_s)
        t_s = np.concatenate(([start_s], self.t_s[inside], [stop_s]))
        power_w = np.interp(t_s, self.t_s, self.power_w)
        return float(np.trapezoid(power_w, t_s))

    def _require_span(self, start_s: float, stop_s: float) -> None:
        if not self.spans(start_s, stop_s):
            raise TraceCoverageError(
                f"Trace of {len(self)} samples does not span [{start_s}, {stop_s}] s."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLook:
    """What is read of a device only about once a second."""

    at_s: float  # when, on the device's clock
    pids: frozenset[int]  # processes that hold a compute context on the device
    memory_power_w: float | None  # power of the memory; None where the device does not tell
    # Mean unit activities since the slow look before; all None where unread.
    activity: Activity = field(default_factory=Activity)


OF_LOOKS = (
    "sm_clock_mhz",
    "mem_clock_mhz",
    "temperature_c",
    "memory_temperature_c",
    "power_limit_w",
    "gpu_utilization",
    "memory_utilization",
)
"""Fields of a look's state that are kept over time."""
ACTIVITIES = tuple(unit.name for unit in fields(Activity))
COURSES = (*OF_LOOKS, "memory_power_w", *ACTIVITIES)
"""Everything that a course tells, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The looks at a device during a measurement, in order."""

    looks: tuple[Look, ...] = ()
    slow_looks: tuple[SlowLook, ...] = ()

    def between(self, start_s: float, stop_s: float) -> "Course":
        """Return the looks from ``start_s`` to ``stop_s``."""
        return Course(
            looks=tuple(look for look in self.looks if start_s <= look.at_s <= stop_s),
            slow_looks=tuple(look for look in self.slow_looks if start_s <= look.at_s <= stop_s),
        )

    def readings(self) -> Iterator[tuple[str, float, float]]:
        """Yield name (one of :data:`COURSES`), time and value of everything that was read."""
        for look in self.looks:
            for name in OF_LOOKS:
                value = getattr(look.state, name)
                if value is not None:
                    yield name, look.at_s, float(value)
        for slow in self.slow_looks:
            if slow.memory_power_w is not None:
                yield "memory_power_w", slow.at_s, slow.memory_power_w
            for name in ACTIVITIES:
                share = getattr(slow.activity, name)
                if share is not None:
                    yield name, slow.at_s, share
