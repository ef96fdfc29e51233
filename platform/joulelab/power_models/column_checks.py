"""What the columns of a table must have in common within an application."""

from collections.abc import Mapping, Sequence

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.runs import Array, Index

Pair = tuple[str, str]
_MIXED_UNITS = 30.0
"""No clock makes work so many times longer; minutes among seconds do, and so do thousandths."""


def check_columns(pairs: Sequence[Pair], numbers: Mapping[str, Array], row: Index) -> None:
    """Check that each application on each GPU has one memory clock, and one unit per column.

    Args:
        pairs: GPU label and application of each row.
        numbers: Columns by name.
        row: Number of each row in its source.

    Raises:
        ConfigError: If not; names the column and the row.
    """
    _check_memory_clock(pairs, numbers, row)
    compared = {"time_s": numbers["time_s"]}
    if "energy_j" in numbers:
        compared["energy_j"] = numbers["energy_j"] / (numbers["power_w"] * numbers["time_s"])
    for name, values in compared.items():
        _check_one_unit(name, pairs, values, numbers[name], row)


def _check_one_unit(
    name: str, pairs: Sequence[Pair], compared: Array, values: Array, row: Index
) -> None:
    positions: dict[Pair, list[int]] = {}
    for position in np.flatnonzero(np.isfinite(compared)).tolist():
        positions.setdefault(pairs[position], []).append(position)
    for pair, own in positions.items():
        off = np.abs(np.log(compared[own] / np.median(compared[own])))
        worst = own[int(np.argmax(off))]
        if off.max() > np.log(_MIXED_UNITS):
            typical = float(np.median(values[own]))
            raise ConfigError(
                f"Column {name!r} must be in one unit, row {row[worst]} has {values[worst]:g} "
                f"where {typical:g} is usual for {pair[1]!r} on {pair[0]!r}: is it in another one?"
            )


def _check_memory_clock(pairs: Sequence[Pair], numbers: Mapping[str, Array], row: Index) -> None:
    if "mem_clock_mhz" not in numbers:
        return
    seen: dict[Pair, tuple[float, int]] = {}
    clocks = numbers["mem_clock_mhz"].tolist()
    for pair, clock_mhz, number in zip(pairs, clocks, row.tolist(), strict=True):
        first_mhz, first = seen.setdefault(pair, (clock_mhz, number))
        if clock_mhz != first_mhz and not np.isnan([clock_mhz, first_mhz]).any():
            raise ConfigError(
                f"Column 'mem_clock_mhz' must hold one clock for {pair[1]!r} on {pair[0]!r}: "
                f"models know the default one alone; row {first} has {first_mhz:g}, row {number} "
                f"{clock_mhz:g}."
            )
