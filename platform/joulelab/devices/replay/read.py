"""Recordings by their path."""

from pathlib import Path

from joulelab.devices.replay.recording import Board
from joulelab.devices.replay.results_folder import read_results
from joulelab.devices.replay.sweep_table import read_sweep_table
from joulelab.errors import ConfigError, JouleLabError


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
        return _read_folder(path)
    if path.is_file():
        return read_sweep_table(path)
    raise ConfigError(f"store must be a results folder or a CSV file, but {store} does not exist.")


def _read_folder(folder: Path) -> tuple[Board, ...]:
    """Read a results folder; lines of another shape than ours are refused, not guessed at."""
    try:
        return read_results(folder)
    except JouleLabError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{folder} holds a line that is no measurement ({type(error).__name__}: {error}); set "
            f"it aside with `joulelab repair {folder}`."
        ) from error
