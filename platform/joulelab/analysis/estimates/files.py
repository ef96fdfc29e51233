"""Estimates as a file, whole or not at all: the suffix says which kind."""

from collections.abc import Sequence
from pathlib import Path

from joulelab.analysis.estimates.export import groups_to_csv, to_csv, to_json
from joulelab.errors import ConfigError
from joulelab.estimator.cell import Cell
from joulelab.tracking.durable import check_file, write_whole

SUFFIXES = (".json", ".csv", ".html")


def check_target(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed.

    Raises:
        ConfigError: If the suffix is none of :data:`SUFFIXES`, or no such file can be made.
    """
    if path.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise ConfigError(f"The file must end in one of {known}, got {str(path)!r}.")
    check_file(path)


def write_cells(cells: Sequence[Cell], path: Path, *, per_group: bool = False) -> Path:
    """Write ``cells`` to ``path``, replacing what is there once all of it is written.

    Args:
        cells: What to write.
        path: A file that ends in ``.json``, ``.csv`` or ``.html``.
        per_group: Whether the CSV has a row for each group instead of each phase.

    Raises:
        ConfigError: If there can be no such file.
        TrackingError: If it cannot be written.
    """
    check_target(path)
    if path.suffix == ".json":
        text = to_json(cells) + "\n"
    elif path.suffix == ".csv":
        text = groups_to_csv(cells) if per_group else to_csv(cells)
    else:
        from joulelab.analysis.estimates.page import page

        text = page(cells)
    write_whole(path, text)
    return path
