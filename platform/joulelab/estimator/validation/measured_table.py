"""Measured runs from a CSV table: of a user's own, or of one of the two known forms."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import knob_value
from joulelab.estimator.validation.points import read_reference_points
from joulelab.estimator.validation.runs import MeasuredRun, Scope, read_h200_runs
from joulelab.registry import unknown_name

_NEEDED = ("model", "device", "precision", "batch")


def read_measured(path: Path) -> tuple[MeasuredRun, ...]:
    """Read measured runs; the columns say of which form the table is.

    Raises:
        ConfigError: If the table cannot be read or lacks columns; names them.
    """
    rows = read_csv_table(path)
    if not rows:
        raise ConfigError(f"{path} holds no measurements.")
    if {"case", "latency_ms"} & set(rows[0]):
        return _of_known_form(path, rows[0])
    missing = [name for name in _NEEDED if name not in rows[0]]
    if missing or not {"time_s", "energy_j"} & set(rows[0]):
        lacks = ", ".join(missing or ["time_s or energy_j"])
        raise ConfigError(f"{path} lacks the columns {lacks}; see `joulelab validate --help`.")
    return tuple(_run(row, number, path) for number, row in enumerate(rows, start=FIRST_LINE))


def _of_known_form(path: Path, row: Mapping[str, str]) -> tuple[MeasuredRun, ...]:
    try:
        return read_h200_runs(path) if "case" in row else read_reference_points(path).runs
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{path} is no whole table of its form: {error}") from error


def _run(row: Mapping[str, str], number: int, path: Path) -> MeasuredRun:
    try:
        return MeasuredRun(
            name=row.get("name") or f"line {number}: {row['model']} on {row['device']}",
            source=row.get("source") or path.name,
            family=row.get("family") or row["model"],
            scenario=row.get("scenario") or "",
            device=row["device"],
            model=row["model"],
            precision=row["precision"],
            batch=int(row["batch"]),
            mode=cast("Mode", _one_of("mode", row.get("mode") or "eager", get_args(Mode))),
            knobs=dict(knob_value(word) for word in (row.get("knobs") or "").split()),
            time_s=_positive(row.get("time_s")),
            energy_j=_positive(row.get("energy_j")),
            scope=cast("Scope", _one_of("scope", row.get("scope") or "gpu", get_args(Scope))),
        )
    except ValueError as error:
        raise ConfigError(f"Line {number} of {path}: {error}") from error


def _positive(text: str | None) -> float | None:
    if not text:
        return None
    value = float(text)
    if not value > 0:
        raise ConfigError(f"A time or an energy must be positive, got {text}.")
    return value


def _one_of(kind: str, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise unknown_name(kind, name, known)
    return name
