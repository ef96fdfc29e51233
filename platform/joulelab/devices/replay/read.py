"""Recordings by their path."""

from pathlib import Path

from joulelab.devices.replay.recording import Board
from joulelab.devices.replay.results_folder import read_results
from joulelab.devices.replay.sweep_table import read_sweep_table
from joulelab.errors import ConfigError


def read_recording(store: str | None) -> tuple[Board, ...]:
    """Read the boards of a recording.

    Args:
        store: A results folder of ours, or a CSV file with a published sweep.

    Raises:
        ConfigError: If it is neither.
    """
    if store is None:
        raise ConfigError(
            "replay needs --store: a results folder, or a CSV file with the columns of a sweep."
        )
    path = Path(store)
    if path.is_dir():
        return read_results(path)
    if path.is_file():
        return read_sweep_table(path)
    raise ConfigError(f"store must be a results folder or a CSV file, but {store} does not exist.")
