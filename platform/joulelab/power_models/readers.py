"""Tables of runs from CSV files, rows and measurements, with units and values checked."""

import hashlib
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from joulelab.core.measurement import Measurement
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.hardware import spec_for
from joulelab.hardware.catalogue import GPUS
from joulelab.power_models.columns import (
    ACTIVITIES,
    APPLICATION_NAMES,
    GPU_NAMES,
    MOST_ABOVE_ENGINE,
    Cells,
)
from joulelab.power_models.runs import Array, Index, Pair, Runs
from joulelab.power_models.studies import (
    SWEEP_COLUMNS,
    explained,
    rows_of_measurements,
    rows_of_sweep,
    under_load,
)

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
    """Read a CSV file with one run per line.

    Names of columns are this project's, or those of DCGM, nvidia-smi, Zeus and Kernel Tuner.

    The ``sweep.csv`` of a study is one too: each operating point with figures is a run.

    Args:
        path: The file; its first line names the columns.
        gpu: Label of the GPU of all runs; a file that has a column of GPUs needs none.
        boards: Which GPU of the catalogue each label is; labels that are catalogue keys or
            product names need none.
        repeats: What to do with several rows at one clock: refuse them, or average them.

    Raises:
        ConfigError: If a column is missing or a value cannot be, with the column and the line; or
            if the file says that runs are of another GPU than ``gpu``.
    """
    return runs_of_rows(
        read_rows(path), gpu=gpu, boards=boards, repeats=repeats, first_row=FIRST_LINE
    )


def read_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """Read the runs of a CSV file, the ``sweep.csv`` of a study among them, as they stand there."""
    rows: Sequence[Mapping[str, Any]] = read_csv_table(path)
    return rows_of_sweep(rows) if rows and set(rows[0]) >= SWEEP_COLUMNS else rows


def runs_of_measurements(measurements: Iterable[Measurement]) -> Runs:
    """Make a table of all that was measured at a known clock; repeats by their median.

    Searches, runs under a power cap and failed ones may be among them: ``left_out`` of the table
    says how many are no run at a known clock, and why. Raises ConfigError if nothing is left.
    """
    rows, left_out = rows_of_measurements(measurements)
    if not rows:
        raise ConfigError(
            f"Measurements at known clocks are required, got {explained(left_out) or 'none'}."
        )
    runs = runs_of_rows(rows, repeats="median")
    return replace(runs, left_out=left_out + Counter(runs.left_out))


def runs_of_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    gpu: str | None = None,
    boards: Mapping[str, str] | None = None,
    repeats: Repeats = "refuse",
    first_row: int = 0,
) -> Runs:
    """Make a table of ``rows``, each a mapping from column names to values.

    Raises ConfigError if a column is missing or a value cannot be; names the column and the row.
    """
    if not rows:
        raise ConfigError("At least one run is required, got an empty table.")
    cells = Cells(rows=rows, first_row=first_row)
    numbers = cells.known(gpu)
    application = cells.texts(APPLICATION_NAMES)
    labels = cells.texts(GPU_NAMES, otherwise=gpu)
    if gpu is not None and (others := sorted({*labels} - {gpu})):
        raise ConfigError(
            f"All runs must be of {gpu!r}, as gpu (--gpu) says, but the table has a column of GPUs "
            f"with {', '.join(map(repr, others))}: leave gpu out, and say which GPU of the "
            "catalogue a label is with --board LABEL=KEY (boards={LABEL: KEY} in Python)."
        )
    if "fp_active" not in numbers and {"fp64_active", "fp32_active"} <= set(numbers):
        numbers["fp_active"] = numbers["fp64_active"] + numbers["fp32_active"] / 2
    pairs = list(zip(labels, application, strict=True))
    clock_mhz, kept, left_out = under_load(pairs, numbers)
    numbers = {n: v[kept] for n, v in {**numbers, "sm_clock_mhz": clock_mhz}.items()}
    row = np.flatnonzero(kept) + first_row
    pairs = list(compress(pairs, kept))
    runs = _runs(*_averaged(pairs, numbers, row, repeats), boards or {})
    return replace(runs, left_out=left_out)


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


def _averaged(
    pairs: Sequence[Pair], numbers: Mapping[str, Array], row: Index, repeats: Repeats
) -> tuple[Sequence[Pair], Mapping[str, Array], Index]:
    """Return the rows with one for each pair, clock and power limit."""
    if repeats == "refuse":
        return pairs, numbers, row
    limits_w = np.nan_to_num(numbers.get("power_limit_w", np.zeros(len(row))))
    places = zip(pairs, numbers["sm_clock_mhz"].tolist(), limits_w.tolist(), strict=True)
    cells = _positions(list(places))
    average = _AVERAGES[repeats]
    means = {
        name: np.array([average(values[cell]) for cell in cells.values()])
        for name, values in numbers.items()
    }
    return [place[0] for place in cells], means, row[[cell[0] for cell in cells.values()]]


def _runs(
    pairs: Sequence[Pair],
    numbers: Mapping[str, Array],
    row: Index,
    boards: Mapping[str, str],
) -> Runs:
    unread = np.full(len(pairs), np.nan)
    _check_columns(pairs, numbers, row)
    return Runs(
        application=np.array([application for _, application in pairs], dtype=np.str_),
        gpu=np.array([label for label, _ in pairs], dtype=np.str_),
        boards={label: _board_key(label, boards) for label, _ in dict.fromkeys(pairs)},
        sm_clock_mhz=numbers["sm_clock_mhz"],
        observed_sm_clock_mhz=numbers.get("observed_sm_clock_mhz", unread),
        power_w=numbers["power_w"],
        time_s=numbers["time_s"],
        activity={name: numbers[name] for name in ACTIVITIES if name in numbers},
        power_limit_w=numbers.get("power_limit_w", unread),
        row=row.astype(np.intp),
    )


def _board_key(label: str, boards: Mapping[str, str]) -> str:
    """Return the catalogue key of the GPU that ``label`` stands for.

    Raises ConfigError if the label is no key and no product name, and ``boards`` lacks it.
    """
    key = boards.get(label, label)
    spec = GPUS[key] if key in GPUS else spec_for(key)
    if spec is None:
        raise ConfigError(
            f"Column 'gpu' must hold a GPU of the catalogue, got {key!r}; say which one it is "
            f"with --board {shlex.quote(f'{label}=KEY')} (boards={{{label!r}: KEY}} in Python), "
            f"KEY one of {', '.join(GPUS)}."
        )
    return spec.key


_MIXED_UNITS = 30.0
"""No clock makes work so many times longer; minutes among seconds do, and so do thousandths."""


def _check_columns(pairs: Sequence[Pair], numbers: Mapping[str, Array], row: Index) -> None:
    """Check that each application on each GPU has one memory clock, and one unit per column."""
    if "mem_clock_mhz" in numbers:
        _check_memory_clock(pairs, numbers["mem_clock_mhz"], row)
    _check_engine(numbers, row)
    compared = {"time_s": numbers["time_s"]}
    if "energy_j" in numbers:
        compared["energy_j"] = numbers["energy_j"] / (numbers["power_w"] * numbers["time_s"])
    for name, values in compared.items():
        _check_one_unit(name, pairs, values, numbers[name], row)


def _check_one_unit(
    name: str, pairs: Sequence[Pair], compared: Array, values: Array, row: Index
) -> None:
    known = np.isfinite(compared)
    for own in _positions(pairs).values():
        own = own[known[own]]
        if not len(own):
            continue
        off = np.abs(np.log(compared[own] / np.median(compared[own])))
        worst = own[int(np.argmax(off))]
        if off.max() > np.log(_MIXED_UNITS):
            gpu, application = pairs[worst]
            raise ConfigError(
                f"Column {name!r} must be in one unit, row {row[worst]} has {values[worst]:g} "
                f"where {float(np.median(values[own])):g} is usual for {application!r} on {gpu!r}: "
                "is it in another one?"
            )


def _check_engine(numbers: Mapping[str, Array], row: Index) -> None:
    unread = np.full(len(row), np.nan)
    sm, engine = (numbers.get(name, unread) for name in ("sm_active", "gr_engine_active"))
    bad = np.flatnonzero(sm - engine > MOST_ABOVE_ENGINE)
    if len(bad):
        raise ConfigError(
            f"Column 'gr_engine_active' must be at least sm_active, row {row[bad[0]]} has "
            f"{engine[bad[0]]:g} and {sm[bad[0]]:g}: leave it empty where it was not read."
        )


def _check_memory_clock(pairs: Sequence[Pair], clocks_mhz: Array, row: Index) -> None:
    for (gpu, application), own in _positions(pairs).items():
        known = own[~np.isnan(clocks_mhz[own])]
        others = known[clocks_mhz[known] != clocks_mhz[known[:1]]]
        if len(others):
            first, other = known[0], others[0]
            raise ConfigError(
                f"Column 'mem_clock_mhz' must hold one clock for {application!r} on {gpu!r}: "
                f"models know the default one alone; row {row[first]} has {clocks_mhz[first]:g}, "
                f"row {row[other]} {clocks_mhz[other]:g}."
            )


def _positions(keys: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], Index]:
    """Return where each of ``keys`` is."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for position, key in enumerate(keys):
        found.setdefault(key, []).append(position)
    return {key: np.array(each, dtype=np.intp) for key, each in found.items()}
