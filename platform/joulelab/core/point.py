"""The knobs of a GPU that an experiment may turn, and what was in force once they were."""

from dataclasses import dataclass, fields
from typing import Literal

from joulelab.core.bounds import MOST_MHZ, MOST_W
from joulelab.errors import ConfigError

_MOST = {"sm_clock_mhz": MOST_MHZ, "mem_clock_mhz": MOST_MHZ, "power_limit_w": MOST_W}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Requested settings of one device; ``None`` leaves a knob to the driver.

    Attributes:
        sm_clock_mhz: Locked streaming-multiprocessor clock, in MHz.
        mem_clock_mhz: Locked memory clock, in MHz.
        power_limit_w: Board power limit, in watts.
    """

    sm_clock_mhz: int | None = None
    mem_clock_mhz: int | None = None
    power_limit_w: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            kind = int | float if field.name == "power_limit_w" else int
            if not isinstance(value, kind) or not 0 < value < _MOST[field.name]:
                raise ConfigError(
                    f"{field.name} must be positive and below {_MOST[field.name]:g}"
                    f"{', a whole number,' if kind is int else ','} or None, got {value!r}."
                )

    @property
    def is_default(self) -> bool:
        """Whether every knob is left to the driver."""
        return self == OperatingPoint()

    @property
    def locks_clocks(self) -> bool:
        """Whether a clock is to be locked, which only a setter can bring about."""
        return self.sm_clock_mhz is not None or self.mem_clock_mhz is not None

    @property
    def label(self) -> str:
        """Short name for runs and plots: ``"1410MHz"``, ``"1410MHz-300W"``, ``"default"``."""
        parts = [
            "" if self.sm_clock_mhz is None else f"{self.sm_clock_mhz}MHz",
            "" if self.mem_clock_mhz is None else f"mem{self.mem_clock_mhz}MHz",
            "" if self.power_limit_w is None else f"{self.power_limit_w:g}W",
        ]
        return "-".join(part for part in parts if part) or "default"


SetBy = Literal["guard", "process", "nobody"]
"""The clock guard, the measuring process itself, or nobody: it was only looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was found on the device after ``requested`` was put in force."""

    uuid: str  # the device
    requested: OperatingPoint  # what was asked for; a knob that is None is at the driver's default
    # What was in force before, and will be again; None for a knob at its default or one that the
    # driver does not tell.
    prior: OperatingPoint
    held: OperatingPoint | None  # what the driver says is set; None where it does not tell
    sm_clock_mhz: int  # SM clock at that instant; an idle GPU may run below its lock
    mem_clock_mhz: int | None  # memory clock at that instant; None where it cannot be read
    power_limit_w: float | None  # power limit in force, in watts; None if unreadable
    set_by: SetBy  # who brought it there
    # Whether it is certain that no clock is locked but those requested: the driver says so, or all
    # locks were undone just before.
    locks_known: bool
