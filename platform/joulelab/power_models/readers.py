"""Tables of runs from CSV files, data frames and measurements, with units and values checked."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from joulelab.core.measurement import Measurement
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.hardware import spec_for
from joulelab.hardware.catalogue import GPUS
from joulelab.power_models.cells import Cells
from joulelab.power_models.column_checks import check_columns
from joulelab.power_models.columns import ACTIVITIES, APPLICATION_NAMES, COLUMNS, GPU_NAMES
from joulelab.power_models.runs import Array, Index, Runs

Repeats = Literal["refuse", "mean", "median"]
"""What to do with several rows of one application at one clock."""
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
    rows = read_csv_table(path)
    return runs_of_rows(rows, gpu=gpu, boards=boards, repeats=repeats, first_row=FIRST_LINE)


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
    cells = Cells(rows=rows, first_row=first_row)
    application = cells.texts(APPLICATION_NAMES)
    labels = cells.texts(GPU_NAMES, otherwise=gpu)
    numbers = {
        column.name: values for column in COLUMNS if (values := cells.numbers(column)) is not None
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
