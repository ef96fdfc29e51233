"""Rows of a table of runs from what studies measured: sweeps, searches, and runs under a cap."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from joulelab.core.device import board_words
from joulelab.core.measurement import Measurement
from joulelab.csv_table import FIRST_LINE
from joulelab.errors import ConfigError
from joulelab.hardware import spec_for
from joulelab.power_models.columns import ACTIVITIES
from joulelab.power_models.runs import NEAR_CAP, Array, Flags, Runs

Row = Mapping[str, Any]
_NUMBERS = {
    *("sm_clock_mhz", "observed_sm_clock_mhz", "power_limit_w"),
    *("power_w", "time_per_unit_s"),
}
SWEEP_COLUMNS = {"workload", "phase", "device"} | _NUMBERS
"""Columns by which the table of a sweep of ours is known."""
HELD = 0.02
"""How far (relative) a clock under load may be from the one asked for and still count as it."""


def rows_of_measurements(measurements: Iterable[Measurement]) -> tuple[list[Row], Counter[str]]:
    """Return a row for each measurement of power and time at a known clock, and what has none.

    An application is a workload with its knobs and phase; time is per unit of work. What a power
    cap held is a run at the clock that was seen, invalid though it is for the one asked for.

    Returns:
        The rows, and how many measurements were left out, by reason.

    Raises:
        ConfigError: If real boards of a product were measured, and others that are no hardware.
    """
    measured = list(measurements)
    _require_one_source(measured)
    memory_top_mhz = dict[str, float]()
    for each in measured:
        seen_mhz = each.observed.mem_clock_mhz or 0.0
        name = each.device.name
        memory_top_mhz[name] = max(seen_mhz, memory_top_mhz.get(name, 0.0))
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for each in measured:
        reason = _unusable(each, memory_top_mhz[each.device.name])
        if reason:
            left_out[reason] += 1
        else:
            rows.append(_row_of(replace(each, findings=())))
    read = {name for row in rows for name in ACTIVITIES if row[name] is not None}
    return [
        {k: v for k, v in r.items() if k in read or k not in ACTIVITIES} for r in rows
    ], left_out


def _require_one_source(measured: Iterable[Measurement]) -> None:
    sources: dict[str, str] = {}
    for each in measured:
        board = board_words(each.device)
        other = sources.setdefault(each.device.name, board)
        if board != other:
            raise ConfigError(
                f"Runs of a product must be all real, or all simulated or replayed, got a {other} "
                f"and a {board}: give the results folders of one of them."
            )


def rows_of_sweep(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the runs of a sweep's table; the default's only where its clock was not asked for.

    Raises ConfigError if two rows are of one application, clock and power limit.
    """
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    was_asked = set()
    for line, row in enumerate(table, start=FIRST_LINE):
        numbers = {name: _number(row[name], name, line) for name in sorted(_NUMBERS)}
        asked_mhz, seen_mhz = numbers["sm_clock_mhz"], numbers["observed_sm_clock_mhz"]
        if numbers["power_w"] is None:
            continue
        names = {"application": f"{row['workload']}/{row['phase']}", "gpu": row["device"]}
        place = (*names.values(), asked_mhz or seen_mhz, numbers["power_limit_w"])
        if asked_mhz is not None and place in was_asked:
            raise ConfigError(
                f"Line {line} of the sweep is a second {place[0]} at {place[2]} MHz: its knobs are "
                "not in this table. Give the results folder of the study instead."
            )
        if asked_mhz is not None:
            was_asked.add(place)
        if place not in found or asked_mhz is not None:
            clock_mhz = _clock_mhz(asked_mhz, seen_mhz)
            found[place] = {**names, **numbers, "sm_clock_mhz": clock_mhz}
    return list(found.values())


def under_load(
    pairs: Sequence[tuple[str, str]], numbers: Mapping[str, Array]
) -> tuple[Array, Flags, Counter[str]]:
    """Return the clock of each row under load, which rows stay, and how many do not, by reason.

    A power cap acts through the clock: a run that it held is one at the clock that was seen. Where
    none was read and other runs of the application had a higher cap, it is left out. ``pairs`` are
    GPU label and application of each row.
    """
    asked_mhz = numbers["sm_clock_mhz"]
    unread = np.full(len(asked_mhz), np.nan)
    seen_mhz = numbers.get("observed_sm_clock_mhz", unread)
    limit_w = numbers.get("power_limit_w", unread)
    moved = np.abs(seen_mhz / asked_mhz - 1.0) > HELD
    clock_mhz = np.where(moved, seen_mhz, asked_mhz)
    highest_w = dict[tuple[str, str], float]()
    for pair, limit in zip(pairs, limit_w.tolist(), strict=True):
        highest_w[pair] = max(limit, highest_w.get(pair, 0.0))
    is_lower = limit_w < np.array([highest_w[pair] for pair in pairs])
    unknown = np.isnan(seen_mhz) & is_lower & (numbers["power_w"] >= (1.0 - NEAR_CAP) * limit_w)
    of_limit = np.nan_to_num(limit_w).tolist()
    places = list(zip(pairs, clock_mhz.tolist(), of_limit, strict=True))
    taken = {place for place, is_moved in zip(places, moved, strict=True) if not is_moved}
    again = np.zeros(len(places), dtype=np.bool_)
    for row in np.flatnonzero(moved).tolist():
        again[row] = places[row] in taken
        taken.add(places[row])
    left_out = {
        "that a power cap held at a clock that was not read": int(unknown.sum()),
        "that a power cap held at a clock that is there already": int(again.sum()),
    }
    return clock_mhz, ~(unknown | again), Counter({k: n for k, n in left_out.items() if n})


def learnable(runs: Runs) -> Runs:
    """Return the runs of applications with a profile and two clocks or more; says what has none.

    Raises ConfigError if none is left.
    """
    kept = np.ones(len(runs), dtype=np.bool_)
    left_out = Counter(runs.left_out)
    for pair, rows in runs.by_pair():
        reason = ""
        if len(set(runs.sm_clock_mhz[rows].tolist())) < 2:
            reason = "at the only clock of their application"
        elif not runs.has_profile(*pair):
            reason = "of applications without a run near the default clock"
        if reason:
            kept[rows] = False
            left_out[reason] += len(rows)
    if not kept.any():
        raise ConfigError(
            "An application at two clocks or more, one of them near the default clock, is "
            f"required to learn from, got {explained(left_out)}."
        )
    return replace(runs.select(kept), left_out=left_out)


def explained(left_out: Mapping[str, int]) -> str:
    """Say how many runs were left out, by reason; empty if none was."""
    return ", ".join(f"{number} {reason}" for reason, number in left_out.items())


def _unusable(measurement: Measurement, memory_top_mhz: float) -> str:
    """Say why a measurement is no run at a clock; empty if it is one."""
    if measurement.sentinel:
        return "that watch for drift"
    if not (measurement.settled and measurement.windows):
        reasons = sorted({finding.reason for finding in measurement.findings})
        return f"that are invalid ({', '.join(reasons)})"
    memory_mhz = measurement.configuration.point.mem_clock_mhz
    if memory_mhz and memory_mhz < (1.0 - HELD) * memory_top_mhz:
        return "at a lower memory clock"
    if spec_for(measurement.device.name) is None:
        return f"on {measurement.device.name}, which the catalogue lacks"
    return "" if measurement.observed.sm_clock_mhz else "whose clock was not read"


def _row_of(measurement: Measurement) -> Row:
    configuration, observed = measurement.configuration, measurement.observed
    point = configuration.point
    knobs = ",".join(f"{name}={value}" for name, value in configuration.knobs)
    return {
        "application": f"{configuration.workload}[{knobs}]/{measurement.phase}",
        "gpu": measurement.device.name,
        "sm_clock_mhz": _clock_mhz(point.sm_clock_mhz, observed.sm_clock_mhz),
        "observed_sm_clock_mhz": observed.sm_clock_mhz,
        "power_w": measurement.power_w,
        "time_s": measurement.time_per_unit_s,
        "power_limit_w": observed.power_limit_w or point.power_limit_w,
        **{name: getattr(observed.activity, name, None) for name in ACTIVITIES},
    }


def _clock_mhz(asked_mhz: float | None, seen_mhz: float | None) -> float | None:
    """Return the clock that was asked for where it was held, else the one that was seen."""
    if asked_mhz is None or (seen_mhz and abs(seen_mhz / asked_mhz - 1.0) > HELD):
        return seen_mhz
    return asked_mhz


def _number(text: str, name: str, line: int) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise ConfigError(
            f"Column {name!r} must hold numbers, got {text!r} in line {line}."
        ) from error
