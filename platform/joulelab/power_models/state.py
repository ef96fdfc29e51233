"""What a model learned, as JSON and plain arrays: a folder that is safe to read from anywhere."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError

_JSON = "model.json"
_ARRAYS = "arrays.npz"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """Numbers, texts and arrays, all of which can be written without pickling.

    Attributes:
        values: What JSON can hold.
        arrays: Arrays of numbers or texts.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def prefixed(self, prefix: str) -> "State":
        """Return the part whose names begin with ``prefix``, without it."""
        return State(
            values={k[len(prefix) :]: v for k, v in self.values.items() if k.startswith(prefix)},
            arrays={k[len(prefix) :]: v for k, v in self.arrays.items() if k.startswith(prefix)},
        )

    def with_prefix(self, prefix: str) -> "State":
        """Return the same with ``prefix`` before every name."""
        return State(
            values={prefix + name: value for name, value in self.values.items()},
            arrays={prefix + name: array for name, array in self.arrays.items()},
        )


def merged(*states: State) -> State:
    """Return all of ``states`` in one; later names replace earlier ones."""
    values: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for state in states:
        values.update(state.values)
        arrays.update(state.arrays)
    return State(values=values, arrays=arrays)


def write_state(folder: Path, state: State) -> None:
    """Write ``state`` into ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(state.values, indent=1, sort_keys=True, allow_nan=False)
    (folder / _JSON).write_text(text + "\n")
    with (folder / _ARRAYS).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **state.arrays)


def read_state(folder: Path) -> State:
    """Read what :func:`write_state` wrote; no code in the files is ever run.

    Raises:
        ConfigError: If the folder does not hold a model.
    """
    try:
        values = json.loads((folder / _JSON).read_text())
        with np.load(folder / _ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"A folder with the model that save() wrote is required, got {folder}: {error}."
        ) from error
    return State(values=values, arrays=arrays)
