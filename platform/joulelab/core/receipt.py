"""What was in force on a device right after it was brought to an operating point."""

from dataclasses import dataclass
from typing import Literal

from joulelab.core.point import OperatingPoint

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
