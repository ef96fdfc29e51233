"""What was in force on a device right after it was brought to an operating point."""

from dataclasses import dataclass
from typing import Literal

from joulelab.core.point import OperatingPoint

SetBy = Literal["guard", "process", "nobody"]
"""The clock guard, the measuring process itself, or nobody: it was only looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was found on the device after ``requested`` was put in force.

    Attributes:
        uuid: The device.
        requested: What was asked for; a knob that is ``None`` is at the driver's default.
        prior: What was in force before, and will be again; ``None`` for a knob at its default
            or one that the driver does not tell.
        held: What the driver says is set; ``None`` where it does not tell.
        sm_clock_mhz: SM clock at that instant; an idle GPU may run below its lock.
        mem_clock_mhz: Memory clock at that instant; ``None`` where it cannot be read.
        power_limit_w: Power limit in force, in watts; ``None`` if unreadable.
        set_by: Who brought it there.
        locks_known: Whether it is certain that no clock is locked but those requested: the
            driver says so, or all locks were undone just before.
    """

    uuid: str
    requested: OperatingPoint
    prior: OperatingPoint
    held: OperatingPoint | None
    sm_clock_mhz: int
    mem_clock_mhz: int | None
    power_limit_w: float | None
    set_by: SetBy
    locks_known: bool
