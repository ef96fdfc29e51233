"""The columns of a table of runs, and their cells as texts and numbers.

Names here and in other layouts, and what a value may be; what cannot be is refused with its column
and row.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.runs import Array


class Limits(NamedTuple):
    """What values of a column may be, and what one beyond that probably is."""

    lowest: float
    highest: float
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of numbers."""

    name: str  # its name here, unit included
    # What other layouts call it, in lower case and without a unit in brackets.
    names: tuple[str, ...] = ()
    limits: Limits  # values beyond these are refused
    required: bool = False  # whether a table without it is refused


APPLICATION_NAMES = ("application", "app", "workload", "window_name")
GPU_NAMES = ("gpu", "device.name", "modelname")
_ROUNDING = 1e-9
"""A mean of ones may come out so much above one."""
SHARE = Limits(0.0, 1.0, "a share from 0 to 1 is required, not a percentage")
_CLOCK = Limits(50.0, 10_000.0, "megahertz are required; is it in Hz, kHz or GHz?")
_POWER = Limits(1.0, 3_000.0, "watts of one GPU are required; is it in milliwatts or kilowatts?")
_CLOCK_NAMES = (
    *("sm_app_clock", "clocks.applications.graphics", "clocks.sm", "clocks.current.sm", "saclk"),
    *("sm_clock", "smclk", "nvml_gr_clock"),
)
_POWER_NAMES = ("power_usage", "power.draw", "power", "nvml_power")
_TIME_NAMES = ("run_time", "runtime", "time_per_unit_s", "elapsed_time")
_ACTIVITY_NAMES: Mapping[str, tuple[str, ...]] = {
    "fp_active": (),
    "dram_active": ("drama", "dram_activity"),
    "tensor_active": ("tensor_activity", "tenso", "pipe_tensor_active"),
    "sm_active": ("smact", "sm_activity"),
    "gr_engine_active": ("gract",),
    "sm_occupancy": ("smocc",),
    "fp64_active": ("fp64a", "pipe_fp64_active"),
    "fp32_active": ("fp32a", "pipe_fp32_active"),
    "fp16_active": ("fp16a", "pipe_fp16_active"),
}
ACTIVITIES = tuple(_ACTIVITY_NAMES)
"""Shares of the time (0 to 1) that units are busy; ``fp_active`` is FP64 + FP32 / 2."""

MOST_ABOVE_ENGINE = 0.1
"""SMs are busy only while the engine is; read one after the other, the counters of the A100 study
differ by up to 0.036."""

COLUMNS = (
    Column(name="sm_clock_mhz", names=_CLOCK_NAMES, limits=_CLOCK, required=True),
    Column(name="power_w", names=_POWER_NAMES, limits=_POWER, required=True),
    Column(
        name="time_s",
        names=_TIME_NAMES,
        limits=Limits(1e-9, 1e8, "positive seconds are required"),
        required=True,
    ),
    Column(
        name="energy_j",
        names=("energy", "nvml_energy", "gpu0_energy"),
        limits=Limits(1e-9, 1e12, "positive joules are required"),
    ),
    Column(
        name="mem_clock_mhz",
        names=("mem_app_clock", "clocks.mem", "mem_clock", "mmclk", "nvml_mem_clock"),
        limits=_CLOCK._replace(highest=30_000.0),
    ),
    Column(name="observed_sm_clock_mhz", names=("core_freq",), limits=_CLOCK),
    Column(
        name="power_limit_w",
        names=("power.limit", "enforced.power.limit", "power_mgmt_limit", "nvml_pwr_limit"),
        limits=_POWER,
    ),
    *(Column(name=name, names=names, limits=SHARE) for name, names in _ACTIVITY_NAMES.items()),
)
"""Every column that models know; a table may have others, which are left out."""

_MILLISECONDS = Column(name="time", limits=Limits(1e-6, 1e11, "positive milliseconds are required"))
_BY_NAME = {column.name: column for column in COLUMNS}
_DERIVED = {"power_w": {"elapsed_time", "gpu0_energy"}, "time_s": {"nvml_gr_clock", "time"}}
"""Of which columns: Zeus logs energy over the very time that it logs, and no power; Kernel Tuner
gives time in milliseconds."""

_UNREAD = ("", "none", "n/a", "[n/a]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Rows of a table; names of columns are known in any case and with units in brackets."""

    rows: Sequence[Mapping[str, Any]]  # mappings from column names to values, at least one
    first_row: int = 0  # number of the first row in its source, for messages

    def known(self, gpu: str | None) -> dict[str, Array]:
        """Return every column of :data:`COLUMNS` that there is, by its name.

        Args:
            gpu: Which GPU all rows are of; ``None`` where a column has to say so.

        Raises:
            ConfigError: If columns lack, with all of them; or a value cannot be.
        """
        derived = {
            name
            for name, of in _DERIVED.items()
            if of <= set(self._found) and self._name((name, *_BY_NAME[name].names)) is None
        }
        columns = [column for column in COLUMNS if column.name not in derived]
        texts = [APPLICATION_NAMES] if gpu is not None else [APPLICATION_NAMES, GPU_NAMES]
        self._require([*texts, *((c.name, *c.names) for c in columns if c.required)])
        numbers = {c.name: v for c in columns if (v := self.numbers(c)) is not None}
        if "time_s" in derived:
            numbers["time_s"] = self.required_numbers(_MILLISECONDS) / 1e3
        if "power_w" in derived:
            energy_j = self.required_numbers(_BY_NAME["energy_j"])
            numbers["power_w"] = energy_j / numbers["time_s"]
            self._check(numbers["power_w"], "gpu0_energy / elapsed_time", _POWER)
        return numbers

    def texts(self, names: Sequence[str], otherwise: str | None = None) -> list[str]:
        """Return the column that has one of ``names``, or ``otherwise`` in every row.

        Raises ConfigError if there is none and no ``otherwise``, or a cell is empty.
        """
        name = self._name(names)
        if name is None:
            if otherwise is None:
                raise ConfigError(self._required(names))
            return [otherwise] * len(self.rows)
        found = [str(row.get(name) or "").strip() for row in self.rows]
        for number, text in enumerate(found, self.first_row):
            if not text or text.lower() == "nan":
                raise ConfigError(f"Column {name!r} must not be empty, row {number} is.")
        return found

    def numbers(self, column: Column) -> Array | None:
        """Return a column, not a number where it was not read; ``None`` if there is none.

        Raises ConfigError if it is required and lacks, or a value cannot be.
        """
        if column.required or self._name((column.name, *column.names)) is not None:
            return self.required_numbers(column, everywhere=column.required)
        return None

    def required_numbers(self, column: Column, *, everywhere: bool = True) -> Array:
        """Return a column that must be there, by default with a number in every row.

        Raises ConfigError if it lacks, or a value cannot be.
        """
        name = self._name((column.name, *column.names))
        if name is None:
            raise ConfigError(self._required((column.name, *column.names)))
        values = [
            _number(row.get(name), name, n) for n, row in enumerate(self.rows, self.first_row)
        ]
        for number, value in enumerate(values, self.first_row):
            if np.isnan(value) and everywhere:
                raise ConfigError(f"Column {name!r} must hold a number, row {number} has none.")
        self._check(values, name, column.limits)
        return np.array(values, dtype=float).clip(max=column.limits.highest)

    def _check(self, values: Iterable[float], name: str, limits: Limits) -> None:
        lowest, highest, hint = limits
        for number, value in enumerate(values, self.first_row):
            if not np.isnan(value) and not lowest <= value <= highest * (1 + _ROUNDING):
                raise ConfigError(
                    f"Column {name!r} must lie from {lowest:g} to {highest:g}, "
                    f"row {number} has {value:g}: {hint}."
                )

    @property
    def _found(self) -> dict[str, str]:
        return {_plain(str(name)): str(name) for name in self.rows[0]}

    def _name(self, names: Sequence[str]) -> str | None:
        found = self._found
        return next((found[name] for name in names if name in found), None)

    def _require(self, columns: Sequence[Sequence[str]]) -> None:
        """Refuse a table that lacks some of ``columns``, each by all of its names."""
        missing = [names for names in columns if self._name(names) is None]
        if missing:
            raise ConfigError(self._required(*missing))

    def _required(self, *missing: Sequence[str]) -> str:
        each = "; ".join(
            f"Column {own!r} is required (also known as {', '.join(others)})"
            for own, *others in missing
        )
        return f"{each}; got columns {sorted(map(str, self.rows[0]))}."


def _plain(name: str) -> str:
    """Cut a unit in brackets, as nvidia-smi writes it, the case, and how DCGM's fields begin."""
    plain = re.sub(r"\s*\[.*\]$", "", name.strip()).lower()
    return re.sub(r"^dcgm_fi_(dev|prof)_", "", plain)


def _number(value: Any, name: str, row: int) -> float:
    """Return a number, not a number where it was not read; nvidia-smi appends units."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _UNREAD):
        return float("nan")
    if isinstance(value, str):
        value = re.sub(r"\s*(W|MHz)$", "", value.strip())
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Column {name!r} must hold numbers, row {row} has {value!r}.") from error
    if isinstance(value, str) and np.isnan(number):
        raise ConfigError(f"Column {name!r} must hold numbers, row {row} has NaN.")
    return number
