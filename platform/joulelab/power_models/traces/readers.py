"""Recordings and schedules from CSV files of samples.

One sample per line: ``t_s``, ``phase``, activities as shares and, for a recording, ``power_w``;
``recording`` names each of several in one file. A phase and an activity hold until the next sample,
power goes straight from sample to sample, as :class:`~joulelab.core.trace.PowerTrace` has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from joulelab.core.trace import PowerTrace
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.power_models.columns import ACTIVITIES, COLUMNS, Cells, Column, Limits
from joulelab.power_models.runs import Array, Index, Names
from joulelab.power_models.traces.load_trace import CLOCK, LoadTrace, Schedule, step_means

_MOST_STEPS = 10_000_000
RECORDING_NAMES = ("recording", "run", "run_id")
PHASE_NAMES = ("phase", "state")
_TIME = Column(
    name="t_s",
    names=("time_s", "timestamp_s"),
    limits=Limits(0.0, 1e10, "seconds since any moment are required"),
)
_CLOCK_SHARE = Column(name=CLOCK, limits=Limits(0.0, 1.0, "a share from 0 to 1 is required"))
_KNOWN = {column.name: replace(column, required=False) for column in COLUMNS}


def read_recordings(
    path: Path, *, step_s: float = 0.1, board: str | None = None
) -> list[LoadTrace]:
    """Read recordings of power and of what ran meanwhile from a CSV file, into steps.

    A column ``sm_clock_mhz`` is divided by the highest clock of ``board``, a GPU of the catalogue.
    Raises ConfigError if a column is missing or a value cannot be; names column and row.
    """
    samples = _samples(path, board)
    sampled_w = samples.cells.required_numbers(_KNOWN["power_w"])
    found = []
    for name, rows in samples.recordings.items():
        schedule = samples.schedule(name, step_s)
        trace = PowerTrace(t_s=samples.t_s[rows], power_w=sampled_w[rows])
        power_w = step_means(trace, float(samples.t_s[rows[0]]), len(schedule), step_s)
        found.append(LoadTrace(name=name, schedule=schedule, power_w=power_w))
    return found


def read_schedules(
    path: Path, *, step_s: float = 0.1, board: str | None = None
) -> dict[str, Schedule]:
    """Read what runs, by the name of the recording; a column of power is left unread.

    Raises ConfigError as :func:`read_recordings`.
    """
    samples = _samples(path, board)
    return {name: samples.schedule(name, step_s) for name in samples.recordings}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Samples:
    """Samples of a file: when they were taken, and what ran and how busy units were from then on.

    ``recordings`` are the positions of the samples of each recording, in order of time.
    """

    cells: Cells
    t_s: Array
    phase: Names
    inputs: Mapping[str, Array]
    recordings: Mapping[str, Index]

    def schedule(self, name: str, step_s: float) -> Schedule:
        """Return what ran in each step, as it was in the middle of it."""
        rows = self.recordings[name]
        t_s = self.t_s[rows]
        num_steps = int((t_s[-1] - t_s[0]) / step_s + 1e-6) if 0 < step_s < inf else 0
        if num_steps > _MOST_STEPS:
            raise ConfigError(
                f"Recording {name!r} of {t_s[-1] - t_s[0]:g} s must have at most {_MOST_STEPS} "
                f"steps of step_s, got {step_s:g} s; take longer ones, or see that t_s is in s."
            )
        if num_steps < 1:
            raise ConfigError(
                f"step_s must be positive and no longer than recording {name!r} of "
                f"{t_s[-1] - t_s[0]:g} s, got {step_s:g}."
            )
        middle_s = t_s[0] + step_s * (np.arange(num_steps) + 0.5)
        at = rows[np.searchsorted(t_s, middle_s, side="right") - 1]
        inputs = {name: values[at] for name, values in self.inputs.items()}
        return Schedule(step_s=step_s, phase=self.phase[at], inputs=inputs)


def _samples(path: Path, board: str | None) -> _Samples:
    if board is not None:
        GPUS[board]  # a wrong name is refused whether it is needed or not
    rows = read_csv_table(path)
    if not rows:
        raise ConfigError(f"At least two samples are required, {path} has none.")
    cells = Cells(rows=rows, first_row=FIRST_LINE)
    labels = cells.texts(RECORDING_NAMES, otherwise=path.stem)
    t_s = cells.required_numbers(_TIME)
    return _Samples(
        cells=cells,
        t_s=t_s,
        phase=np.array(cells.texts(PHASE_NAMES, otherwise="all"), dtype=np.str_),
        inputs=_inputs(cells, board),
        recordings={name: _in_order(labels, name, t_s) for name in dict.fromkeys(labels)},
    )


def _in_order(labels: Sequence[str], name: str, t_s: Array) -> Index:
    rows = np.flatnonzero(np.array(labels) == name)
    back = np.flatnonzero(np.diff(t_s[rows]) <= 0)
    if len(back):
        row = rows[back[0] + 1]
        raise ConfigError(
            f"Column 't_s' must rise within recording {name!r}, row {row + FIRST_LINE} has "
            f"{t_s[row]:g} after {t_s[rows[back[0]]]:g}."
        )
    return np.asarray(rows, dtype=np.intp)


def _inputs(cells: Cells, board: str | None) -> dict[str, Array]:
    found = {name: cells.numbers(_KNOWN[name]) for name in ACTIVITIES}
    found[CLOCK] = cells.numbers(_CLOCK_SHARE)
    clock_mhz = cells.numbers(_KNOWN["sm_clock_mhz"])
    if found[CLOCK] is None and clock_mhz is not None:
        if board is None:
            raise ConfigError(
                "A column 'sm_clock_mhz' needs the GPU whose highest clock it is divided by, got "
                f"none: say board=, one of {', '.join(GPUS)}."
            )
        found[CLOCK] = np.minimum(clock_mhz / max(GPUS[board].sm_clocks_mhz), 1.0)
    inputs = {name: values for name, values in found.items() if values is not None}
    if not inputs:
        raise ConfigError(
            f"At least one activity is required as a column, got {sorted(map(str, cells.rows[0]))}."
        )
    for name, values in inputs.items():
        unread = np.flatnonzero(np.isnan(values))
        if len(unread):
            row = unread[0] + cells.first_row
            raise ConfigError(f"Column {name!r} must hold a number, row {row} has none.")
    return inputs
