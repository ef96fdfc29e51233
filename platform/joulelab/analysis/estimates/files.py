"""Estimates as a file, whole or not at all: the suffix says which kind."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from joulelab.analysis.estimates.export import groups_to_csv, to_csv, to_json
from joulelab.errors import ConfigError
from joulelab.estimator.cell import Cell

SUFFIXES = (".json", ".csv", ".html")


def check_target(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed.

    Raises:
        ConfigError: If the suffix is none of :data:`SUFFIXES`, or there is no such folder.
    """
    if path.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise ConfigError(f"The file must end in one of {known}, got {str(path)!r}.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {str(path.absolute().parent)!r} to write into.")


def write_cells(cells: Sequence[Cell], path: Path, *, per_group: bool = False) -> Path:
    """Write ``cells`` to ``path``, replacing what is there once all of it is written.

    Args:
        cells: What to write.
        path: A file that ends in ``.json``, ``.csv`` or ``.html``.
        per_group: Whether the CSV has a row for each group instead of each phase.

    Raises:
        ConfigError: If the file cannot be written.
    """
    check_target(path)
    if path.suffix == ".json":
        text = to_json(cells) + "\n"
    elif path.suffix == ".csv":
        text = groups_to_csv(cells) if per_group else to_csv(cells)
    else:
        from joulelab.analysis.estimates.page import page

        text = page(cells)
    write_whole(text, path)
    return path


def write_whole(text: str, path: Path) -> None:
    """Write ``text`` beside ``path`` and move it there.

    Raises:
        ConfigError: If that is not allowed or there is no room.
    """
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.absolute().parent, delete=False
        ) as file:
            written = Path(file.name)
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                written.unlink(missing_ok=True)
                raise
        written.chmod(0o644)
        written.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
