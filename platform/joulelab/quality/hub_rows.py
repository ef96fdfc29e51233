"""Data sets of the hub."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from joulelab.errors import ConfigError


def hub_rows(source: str) -> list[Mapping[str, Any]]:
    """Read the rows of a data set of the hub.

    Args:
        source: ``ID``, or ``ID:CONFIGURATION``, with ``@SPLIT`` at the end unless it is test.

    Raises:
        ConfigError: If it cannot be read.
    """
    name, _, split = source.partition("@")
    dataset, _, configuration = name.partition(":")
    try:
        load = import_module("datasets").load_dataset
    except ImportError as error:
        raise ConfigError(
            f"data must be a folder or file, got {source!r}, which is none here; to read it from "
            "the hub, pip install datasets."
        ) from error
    try:
        return list(load(dataset, configuration or None, split=split or "test"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"data must be a folder, a file, or a data set of the hub that this machine can reach, "
            f"got {source!r}. {' '.join(str(error).split())}"
        ) from error
