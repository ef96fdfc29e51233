"""Configurations as Ray Tune has them: one level of names and values."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError

WORKLOAD, REPEAT = "workload", "repeat"
"""Names besides those of the GPU's knobs and the workload's."""

_POINT = tuple(field.name for field in fields(OperatingPoint))


def config_of(configuration: Configuration, repeat: int = 0) -> dict[str, Any]:
    """Return a configuration for Tune: workload, the GPU's knobs, its own, and the repeat."""
    names = {WORKLOAD: configuration.workload, REPEAT: repeat}
    return {**names, **asdict(configuration.point), **dict(configuration.knobs)}


def configuration_of(config: Mapping[str, Any]) -> tuple[Configuration, int]:
    """Return the configuration that Tune has as ``config``, and the number of its repeat.

    Raises:
        ConfigError: If it names no workload, or a value is none that a GPU can have.
    """
    rest = {name: _scalar(value) for name, value in config.items()}
    workload, repeat = rest.pop(WORKLOAD, None), int(rest.pop(REPEAT, 0))
    if not isinstance(workload, str):
        raise ConfigError(f"A trial needs the name of a workload, got {workload!r}.")
    point = OperatingPoint(**{name: rest.pop(name) for name in _POINT if name in rest})
    return Configuration.of(workload, rest, point), repeat


def _scalar(value: Any) -> Any:
    """Return what algorithms of Tune's suggest as a number of NumPy's as one of Python's."""
    return value.item() if isinstance(value, np.generic) else value
