"""The table of runs that a command of ``joulelab models`` reads."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.errors import ConfigError
from joulelab.power_models.readers import Repeats, read_csv, runs_of_measurements
from joulelab.power_models.runs import Runs
from joulelab.power_models.studies import explained, learnable
from joulelab.tracking.store import ResultStore, study_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTable:
    """A command on a table of runs.

    Attributes:
        table: CSV file with one run per line (columns application, sm_clock_mhz or sm_app_clock,
            power_w or power_usage, time_s or run_time, activities as shares), the sweep.csv of a
            study, the results folder of one, or a folder that holds several, searches and capped
            runs among them. Under a power cap (power_limit_w) the clock that was seen counts.
        gpu: GPU of all runs, where the file has no such column.
        board: LABEL=KEY for each label in the column gpu that is neither a key of the catalogue
            nor a product name.
        repeats: What to do with several rows at one clock.
    """

    table: tyro.conf.Positional[Path]
    gpu: str | None = None
    board: tuple[str, ...] = ()
    repeats: Repeats = "refuse"

    def read(self) -> Runs:
        """Read the table.

        Raises:
            ConfigError: If it cannot be read; names column and row.
        """
        return _noted(self._read())

    def learnable(self) -> Runs:
        """Read the table without what no model can learn from.

        Raises:
            ConfigError: As :meth:`read`; or if nothing is left.
        """
        return _noted(learnable(self._read()))

    def _read(self) -> Runs:
        if self.table.is_dir():
            studies = [ResultStore(folder) for folder in study_folders(self.table)]
            return runs_of_measurements([m for study in studies for m in study.read()])
        return read_csv(self.table, gpu=self.gpu, boards=self.boards(), repeats=self.repeats)

    def boards(self) -> dict[str, str]:
        """Return what each label stands for.

        Raises:
            ConfigError: If an entry is not LABEL=KEY.
        """
        pairs = [entry.partition("=") for entry in self.board]
        for entry, (label, _, key) in zip(self.board, pairs, strict=True):
            if not label or not key:
                raise ConfigError(f"--board takes LABEL=KEY, got {entry!r}.")
        return {label: key for label, _, key in pairs}


def _noted(runs: Runs) -> Runs:
    """Say what was left out of the table."""
    if runs.left_out:
        number = sum(runs.left_out.values())
        print(f"{number} runs are left out: {explained(runs.left_out)}.", file=sys.stderr)
    return runs
