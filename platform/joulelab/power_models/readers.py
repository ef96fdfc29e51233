"""Tables of runs from CSV files, data frames and measurements, with units and values checked."""

import csv
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from joulelab.core.measurement import Measurement
from joulelab.errors import ConfigError
from joulelab.hardware import spec_for
from joulelab.hardware.catalogue import GPUS
from joulelab.power_models.column_checks import check_columns
from joulelab.power_models.columns import (
    ACTIVITIES,
    APPLICATION_NAMES,
    COLUMNS,
    GPU_NAMES,
    Column,
)
from joulelab.power_models.runs import Array, Index, Runs

Repeats = Literal["refuse", "mean", "median"]
"""What to do with several rows of one application at one clock."""
_UNREAD = ("", "none", "n/a", "[n/a]")
_AVERAGES: Mapping[str, Callable[[Array], Any]] = {"mean": np.mean, "median": np.median}


def read_csv(
    path: Path,
    *,
    gpu: str | None = None,
    boards: Mapping[str, str] | None = None,
    repeats: Repeats = "refuse",
) -> Runs:
    """Read a CSV file with one run per line, in this project's, DCGM's or nvidia-smi's names.

    Args:
        path: The file; its first line names the columns.
        gpu: Label of the GPU where the file has no such column.
        boards: Which GPU of the catalogue each label is; labels that are catalogue keys or
            product names need none.
        repeats: What to do with several rows at one clock: refuse them, or average them.

    Raises:
        ConfigError: If a column is missing or a value cannot be; names the column and the line.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"A readable CSV file is required, got {path}: {error}.") from error
    return runs_of_rows(lines, gpu=gpu, boards=boards, repeats=repeats, first_row=2)


def runs_of_frame(
    frame: Any,
    *,
    gpu: str | None = None,
    boards: Mapping[str, str] | None = None,
    repeats: Repeats = "refuse",
) -> Runs:
    """Read a pandas DataFrame, as :func:`read_csv` reads a file; rows count from 0."""
    rows = frame.to_dict(orient="records")
    return runs_of_rows(rows, gpu=gpu, boards=boards, repeats=repeats)


def runs_of_measurements(measurements: Iterable[Measurement]) -> Runs:
    """Make a table of the valid measurements whose SM clock was read; repeats by their median.

    An application is a workload with its knobs and phase; time and energy are per unit of work.

    Raises:
        ConfigError: If none is left.
    """
    used = [m for m in measurements if m.valid and m.observed.sm_clock_mhz and not m.sentinel]
    return runs_of_rows([_row_of(m) for m in used], repeats="median")


def runs_of_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    gpu: str | None = None,
    boards: Mapping[str, str] | None = None,
    repeats: Repeats = "refuse",
    first_row: int = 0,
) -> Runs:
    """Make a table of ``rows``, each a mapping from column names to values.

    Raises:
        ConfigError: If a column is missing or a value cannot be; names the column and the row.
    """
    if not rows:
        raise ConfigError("At least one run is required, got an empty table.")
    found = {_plain(str(name)): str(name) for name in rows[0]}
    application = _texts(rows, found, APPLICATION_NAMES, None, first_row)
    labels = _texts(rows, found, GPU_NAMES, gpu, first_row)
    numbers = {
        column.name: _values(rows, name, column, first_row)
        for column in COLUMNS
        if (name := _found(found, column)) is not None
    }
    _add_fp_active(numbers)
    row = np.arange(len(rows), dtype=np.intp) + first_row
    kept = _averaged(application, labels, numbers, row, repeats)
    return _runs(*kept, boards or {})


def data_hash(runs: Runs) -> str:
    """Return twelve hex digits that name the content of a table, whatever the order of rows."""
    names = ["sm_clock_mhz", "power_w", "time_s", "power_limit_w"]
    columns = [getattr(runs, name) for name in names]
    columns += [runs.activity[name] for name in sorted(runs.activity)]
    lines = sorted(
        f"{runs.boards[gpu]}|{gpu}|{application}|" + "|".join(f"{value:.9g}" for value in values)
        for gpu, application, *values in zip(
            runs.gpu.tolist(), runs.application.tolist(), *columns, strict=True
        )
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _plain(name: str) -> str:
    """Cut a unit in brackets, as nvidia-smi writes it, and the case."""
    return re.sub(r"\s*\[.*\]$", "", name.strip()).lower()


def _found(found: Mapping[str, str], column: Column) -> str | None:
    for name in (column.name, *column.names):
        if name in found:
            return found[name]
    if column.required:
        raise ConfigError(
            f"Column {column.name!r} is required (also known as {', '.join(column.names)}), "
            f"got columns {sorted(found.values())}."
        )
    return None


def _texts(
    rows: Sequence[Mapping[str, Any]],
    found: Mapping[str, str],
    names: Sequence[str],
    otherwise: str | None,
    first_row: int,
) -> list[str]:
    name = next((found[each] for each in names if each in found), None)
    if name is None:
        if otherwise is None:
            raise ConfigError(
                f"Column {names[0]!r} is required (also known as {', '.join(names[1:])}), "
                f"got columns {sorted(found.values())}."
            )
        return [otherwise] * len(rows)
    texts = [str(row.get(name) or "").strip() for row in rows]
    for number, text in enumerate(texts):
        if not text or text.lower() == "nan":
            raise ConfigError(f"Column {name!r} must not be empty, row {number + first_row} is.")
    return texts


def _values(rows: Sequence[Mapping[str, Any]], name: str, column: Column, first_row: int) -> Array:
    values = [_number(row.get(name), name, number + first_row) for number, row in enumerate(rows)]
    for number, value in enumerate(values):
        if np.isnan(value):
            if column.required:
                raise ConfigError(
                    f"Column {name!r} must hold a number, row {number + first_row} has none."
                )
        elif not column.lowest <= value <= column.highest:
            raise ConfigError(
                f"Column {name!r} must lie from {column.lowest:g} to {column.highest:g}, "
                f"row {number + first_row} has {value:g}: {column.hint}."
            )
    return np.array(values, dtype=float)


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


def _add_fp_active(numbers: dict[str, Array]) -> None:
    if "fp_active" not in numbers and {"fp64_active", "fp32_active"} <= set(numbers):
        numbers["fp_active"] = numbers["fp64_active"] + numbers["fp32_active"] / 2


def _averaged(
    application: Sequence[str],
    labels: Sequence[str],
    numbers: Mapping[str, Array],
    row: Index,
    repeats: Repeats,
) -> tuple[list[str], list[str], Mapping[str, Array], Index]:
    if repeats == "refuse":
        return list(application), list(labels), numbers, row
    cells: dict[tuple[str, str, float], list[int]] = {}
    clocks = numbers["sm_clock_mhz"].tolist()
    for position, key in enumerate(zip(labels, application, clocks, strict=True)):
        cells.setdefault(key, []).append(position)
    average = _AVERAGES[repeats]
    means = {
        name: np.array([average(values[cell]) for cell in cells.values()])
        for name, values in numbers.items()
    }
    first = np.array([row[cell[0]] for cell in cells.values()])
    return [key[1] for key in cells], [key[0] for key in cells], means, first


def _runs(
    application: Sequence[str],
    labels: Sequence[str],
    numbers: Mapping[str, Array],
    row: Index,
    boards: Mapping[str, str],
) -> Runs:
    unread = np.full(len(application), np.nan)
    check_columns(list(zip(labels, application, strict=True)), numbers, row)
    return Runs(
        application=np.array(application, dtype=np.str_),
        gpu=np.array(labels, dtype=np.str_),
        boards={label: board_key(label, boards) for label in dict.fromkeys(labels)},
        sm_clock_mhz=numbers["sm_clock_mhz"],
        power_w=numbers["power_w"],
        time_s=numbers["time_s"],
        activity={name: numbers[name] for name in ACTIVITIES if name in numbers},
        power_limit_w=numbers.get("power_limit_w", unread),
        row=row.astype(np.intp),
    )


def board_key(label: str, boards: Mapping[str, str]) -> str:
    """Return the catalogue key of the GPU that ``label`` stands for.

    Raises:
        ConfigError: If the label is no key and no product name, and ``boards`` lacks it.
    """
    key = boards.get(label, label)
    spec = GPUS[key] if key in set(GPUS) else spec_for(key)
    if spec is None:
        raise ConfigError(
            f"Column 'gpu' must hold a GPU of the catalogue, got {key!r}; say which one it is "
            f"with boards={{{label!r}: KEY}}, one of {', '.join(GPUS)}."
        )
    return spec.key


def _row_of(measurement: Measurement) -> dict[str, Any]:
    configuration, observed = measurement.configuration, measurement.observed
    knobs = ",".join(f"{name}={value}" for name, value in configuration.knobs)
    activity = {name: getattr(observed.activity, name, None) for name in ACTIVITIES}
    return {
        "application": f"{configuration.workload}[{knobs}]/{measurement.phase}",
        "gpu": measurement.device.name,
        "sm_clock_mhz": configuration.point.sm_clock_mhz or observed.sm_clock_mhz,
        "power_w": measurement.power_w,
        "time_s": measurement.time_per_unit_s,
        **{name: value for name, value in activity.items() if value is not None},
        "power_limit_w": configuration.point.power_limit_w,
    }
