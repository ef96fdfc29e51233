"""What a device did over time, beside the power it drew."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from joulelab.core.device import Activity, Look


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
