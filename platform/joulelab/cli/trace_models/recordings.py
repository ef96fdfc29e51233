"""What the subcommands have in common: a file of samples to read."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.power_models.traces.load_trace import LoadTrace, Schedule
from joulelab.power_models.traces.readers import read_recordings, read_schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSamples:
    """A command on a file of samples.

    Attributes:
        samples: CSV file with one sample per line: t_s, phase, activities as shares, clock_ratio
            or sm_clock_mhz, and power_w; recording where there are several in it.
        step_s: Length of the steps that samples are made into.
        board: GPU, by its key in the catalogue, where the file has sm_clock_mhz.
    """

    samples: tyro.conf.Positional[Path]
    step_s: float = 0.1
    board: str | None = None

    def recordings(self) -> list[LoadTrace]:
        """Read the file.

        Raises:
            ConfigError: If it cannot be read; names column and row.
        """
        return read_recordings(self.samples, step_s=self.step_s, board=self.board)

    def schedules(self) -> dict[str, Schedule]:
        """Read what runs, without power.

        Raises:
            ConfigError: If it cannot be read; names column and row.
        """
        return read_schedules(self.samples, step_s=self.step_s, board=self.board)
