"""What a model learned, as JSON and plain arrays: a folder that is safe to read from anywhere."""

import hashlib
import json
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError, JouleLabError

_JSON = "model.json"
_ARRAYS = "arrays.npz"
_DIGESTS = "sha256"
_DAMAGE = (
    *(AttributeError, LookupError, TypeError, ValueError),  # other content than expected
    *(OSError, EOFError, BadZipFile, zlib.error, RuntimeError),  # files cut off or overwritten
)
"""What readers of JSON, npz and native formats raise on files that are not as they wrote them."""


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
    """Write ``state`` into ``folder``, which is made, beside files that are there already.

    Digests of all files go with it: libraries may crash on a native file that is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _ARRAYS).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **state.arrays)
    others = [path for path in folder.rglob("*") if path.is_file() and path != folder / _JSON]
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in others}
    told = {**state.values, _DIGESTS: digests}
    text = json.dumps(told, indent=1, sort_keys=True, allow_nan=False)
    (folder / _JSON).write_text(text + "\n")


def read_state(folder: Path) -> State:
    """Read what :func:`write_state` wrote; no code in the files is ever run.

    Raises:
        ConfigError: If the folder does not hold a model, or one of its files was changed.
    """
    with whole_model(folder):
        values = json.loads((folder / _JSON).read_text())
        if not isinstance(values, dict):
            raise TypeError(f"{_JSON} holds a {type(values).__name__}")
        for name, digest in values.pop(_DIGESTS, {}).items():
            if _digest(folder / name) != digest:
                raise ValueError(f"{name} is not as it was written")
        with np.load(folder / _ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    return State(values=values, arrays=arrays)


@contextmanager
def whole_model(folder: Path) -> Generator[None]:
    """Say of any error in reading a model that its folder is damaged, or of another origin.

    Raises:
        ConfigError: In place of what the reading within raises.
    """
    try:
        yield
    except JouleLabError:
        raise
    except _DAMAGE as error:
        raise ConfigError(
            f"A whole model that save() of this version wrote is required, got {folder}: "
            f"{type(error).__name__}: {error}. Train and save it anew."
        ) from error


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
