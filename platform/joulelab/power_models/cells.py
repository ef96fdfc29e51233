"""Cells of tables as texts and numbers, each refused with its column and row if it cannot be."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.columns import Column
from joulelab.power_models.runs import Array

_UNREAD = ("", "none", "n/a", "[n/a]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Rows of a table; names of columns are known in any case and with units in brackets.

    Attributes:
        rows: Mappings from column names to values, at least one.
        first_row: Number of the first row in its source, for messages.
    """

    rows: Sequence[Mapping[str, Any]]
    first_row: int = 0

    def texts(self, names: Sequence[str], otherwise: str | None = None) -> list[str]:
        """Return the column that has one of ``names``, or ``otherwise`` in every row.

        Raises:
            ConfigError: If there is none and no ``otherwise``, or a cell is empty.
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

        Raises:
            ConfigError: If it is required and lacks, or a value cannot be.
        """
        if column.required or self._name((column.name, *column.names)) is not None:
            return self._numbers(column, required=column.required)
        return None

    def required_numbers(self, column: Column) -> Array:
        """Return a column that must be there, with a number in every row.

        Raises:
            ConfigError: If it lacks, or a value cannot be.
        """
        return self._numbers(column, required=True)

    def _numbers(self, column: Column, *, required: bool) -> Array:
        name = self._name((column.name, *column.names))
        if name is None:
            raise ConfigError(self._required((column.name, *column.names)))
        values = [
            _number(row.get(name), name, n) for n, row in enumerate(self.rows, self.first_row)
        ]
        for number, value in enumerate(values, self.first_row):
            if np.isnan(value):
                if required:
                    raise ConfigError(f"Column {name!r} must hold a number, row {number} has none.")
            elif not column.lowest <= value <= column.highest:
                raise ConfigError(
                    f"Column {name!r} must lie from {column.lowest:g} to {column.highest:g}, "
                    f"row {number} has {value:g}: {column.hint}."
                )
        return np.array(values, dtype=float)

    def _name(self, names: Sequence[str]) -> str | None:
        found = {_plain(str(name)): str(name) for name in self.rows[0]}
        return next((found[name] for name in names if name in found), None)

    def _required(self, names: Sequence[str]) -> str:
        return (
            f"Column {names[0]!r} is required (also known as {', '.join(names[1:])}), "
            f"got columns {sorted(map(str, self.rows[0]))}."
        )


def _plain(name: str) -> str:
    """Cut a unit in brackets, as nvidia-smi writes it, and the case."""
    return re.sub(r"\s*\[.*\]$", "", name.strip()).lower()


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
