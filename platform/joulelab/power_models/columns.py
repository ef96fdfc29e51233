"""The columns of a table of runs: their names here, in other layouts, and what a value may be."""

from dataclasses import dataclass

ACTIVITIES = (
    "fp_active",
    "dram_active",
    "tensor_active",
    "sm_active",
    "gr_engine_active",
    "sm_occupancy",
    "fp64_active",
    "fp32_active",
    "fp16_active",
)
"""Shares of the time (0 to 1) that units are busy; ``fp_active`` is FP64 + FP32 / 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of numbers.

    Attributes:
        name: Its name here, unit included.
        names: What other layouts call it, in lower case and without a unit in brackets.
        lowest: Values below it are refused.
        highest: Values above it are refused.
        hint: What a value beyond these bounds probably is.
        required: Whether a table without it is refused.
    """

    name: str
    names: tuple[str, ...] = ()
    lowest: float
    highest: float
    hint: str
    required: bool = False


APPLICATION_NAMES = ("application", "app", "workload")
GPU_NAMES = ("gpu", "device.name")

_FRACTION_HINT = "a share from 0 to 1 is required; is it a percentage?"
_OTHER_ACTIVITY_NAMES = {
    "dram_active": ("drama", "dram_activity"),
    "tensor_active": ("tensor_activity", "tenso", "pipe_tensor_active"),
    "sm_active": ("smact", "sm_activity"),
    "gr_engine_active": ("gract",),
    "sm_occupancy": ("smocc",),
    "fp64_active": ("fp64a",),
    "fp32_active": ("fp32a",),
    "fp16_active": ("fp16a",),
}

COLUMNS = (
    Column(
        name="sm_clock_mhz",
        names=("sm_app_clock", "clocks.applications.graphics", "clocks.sm", "saclk"),
        lowest=50.0,
        highest=10_000.0,
        hint="megahertz are required; is it in Hz, kHz or GHz?",
        required=True,
    ),
    Column(
        name="power_w",
        names=("power_usage", "power.draw", "power"),
        lowest=1.0,
        highest=3_000.0,
        hint="watts of one GPU are required; is it in milliwatts or kilowatts?",
        required=True,
    ),
    Column(
        name="time_s",
        names=("run_time", "runtime", "time_per_unit_s"),
        lowest=1e-9,
        highest=1e8,
        hint="positive seconds are required",
        required=True,
    ),
    Column(
        name="energy_j",
        names=("energy",),
        lowest=1e-9,
        highest=1e12,
        hint="positive joules are required",
    ),
    Column(
        name="mem_clock_mhz",
        names=("mem_app_clock", "clocks.mem"),
        lowest=50.0,
        highest=30_000.0,
        hint="megahertz are required; is it in Hz, kHz or GHz?",
    ),
    Column(
        name="power_limit_w",
        names=("power.limit", "power_mgmt_limit"),
        lowest=1.0,
        highest=3_000.0,
        hint="watts of one GPU are required; is it in milliwatts or kilowatts?",
    ),
    *(
        Column(
            name=name,
            names=_OTHER_ACTIVITY_NAMES.get(name, ()),
            lowest=0.0,
            highest=1.0,
            hint=_FRACTION_HINT,
        )
        for name in ACTIVITIES
    ),
)
"""Every column that models know; a table may have others, which are left out."""
