"""What the subcommands have in common: a table of runs, or a results folder, to read."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.errors import ConfigError
from joulelab.power_models.readers import Repeats, read_csv, runs_of_measurements
from joulelab.power_models.runs import Runs
from joulelab.tracking.store import ResultStore


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTable:
    """A command on a table of runs.

    Attributes:
        table: CSV file with one run per line (columns application, sm_clock_mhz or sm_app_clock,
            power_w or power_usage, time_s or run_time, activities as shares), or the results
            folder of a study.
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
        if self.table.is_dir():
            return runs_of_measurements(ResultStore(self.table).read())
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


def one_pair(runs: Runs, application: str | None) -> tuple[str, str]:
    """Return the GPU label and the name of the one application that is meant.

    Raises:
        ConfigError: If there is none, or several and none was named.
    """
    found = [pair for pair in runs.pairs if application in (None, pair[1])]
    if len(found) != 1:
        known = ", ".join(f"{name} on {gpu}" for gpu, name in runs.pairs[:12])
        raise ConfigError(
            f"One application of the table is required (--application), got {len(found)} that "
            f"match {application!r} among {known}."
        )
    return found[0]
