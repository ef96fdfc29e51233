"""CSV files that users hand in: read whole and regular, or refused with the line that is not."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from joulelab.errors import ConfigError

FIRST_LINE = 2
"""Of the rows, below the names of the columns."""
_SHOWN = 60
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def read_csv_table(path: Path, *, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the rows of a CSV file whose first line names the columns; empty lines are left out.

    Args:
        path: The file.
        columns: Columns that must be among its own.

    Raises:
        ConfigError: If it cannot be read, is no text in UTF-8, lacks a column, names one twice, or
            has a line with more or fewer cells; names the line.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            names = next(reader, [])
            _check_text(f"{path}:1", names)
            _check_names(path, names, columns)
            rows = []
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise ConfigError(
                        f"{path}:{reader.line_num} must have {len(names)} cells, as many as there "
                        f"are columns, but has {len(cells)}."
                    )
                _check_text(f"{path}:{reader.line_num}", cells)
                rows.append(dict(zip(names, cells, strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"A readable CSV file is required, got {path}: {error}.") from error
    return rows


def _check_text(place: str, cells: Sequence[str]) -> None:
    """Refuse what no table holds, and what would do something to the terminal that shows it."""
    found = next(filter(None, map(_CONTROL.search, cells)), None)
    if found:
        raise ConfigError(f"{place} must be text, but holds the control character {found[0]!r}.")


def _check_names(path: Path, names: list[str], columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in names]
    if missing:
        raise ConfigError(
            f"{path} must have the columns {', '.join(columns)}, but lacks {', '.join(missing)}."
        )
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ConfigError(
            f"Each column of {path} must have a name of its own, but {doubled[:_SHOWN]!r} is there "
            f"{names.count(doubled)} times."
        )
