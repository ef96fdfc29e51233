"""What a model learned, as JSON and plain arrays: a folder that is safe to read from anywhere."""

import hashlib
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self
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
    """What JSON can hold, and arrays of numbers or texts: nothing that needs pickling."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Any, *, without: Collection[str] = ()) -> "State":
        """Return the fields of a dataclass but for ``without`` and those that are ``None``."""
        kept = {each.name: getattr(record, each.name) for each in fields(record)}
        kept = {k: v for k, v in kept.items() if k not in without and v is not None}
        arrays = {k: v for k, v in kept.items() if isinstance(v, np.ndarray)}
        return cls(values={k: v for k, v in kept.items() if k not in arrays}, arrays=arrays)

    @property
    def everything(self) -> dict[str, Any]:
        """Values and arrays by name."""
        return {**self.values, **self.arrays}

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
    whole = {**state.values, _DIGESTS: digests}
    text = json.dumps(whole, indent=1, sort_keys=True, allow_nan=False)
    (folder / _JSON).write_text(text + "\n")


def read_state(folder: Path) -> State:
    """Read what :func:`write_state` wrote; no code in the files is ever run.

    Raises ConfigError if the folder does not hold a model, or one of its files was changed.
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


class StoredModel(ABC):
    """A model that is saved as JSON, arrays and native formats; nothing is pickled.

    Its constructor takes its settings by name. What it learned is in attributes that it names, or
    in what it overrides ``_state`` and ``_restore``, ``_save_native`` and ``_load_native`` for.
    """

    name: ClassVar[str]
    """Its name in the table of models."""
    learned_values: ClassVar[tuple[str, ...]] = ()
    """Attributes, without their underscore, that hold what was learned as JSON can hold it."""
    learned_arrays: ClassVar[tuple[str, ...]] = ()
    """Attributes, without their underscore, that hold what was learned as arrays."""
    _data_hash = ""

    @property
    def data_hash(self) -> str:
        """Name of the content of what it was trained on."""
        return self._data_hash

    def save(self, folder: Path) -> None:
        """Write the model into ``folder`` in native formats; nothing is pickled."""
        about = State(values={"name": self.name, "settings": self._all_settings()})
        state = merged(about, self._shared(), self._state().with_prefix("member."))
        folder.mkdir(parents=True, exist_ok=True)
        self._save_native(folder)
        write_state(folder, state)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the model that ``save`` wrote.

        Raises ConfigError if the folder does not hold a whole model of this kind.
        """
        state = read_state(folder)
        if state.values.get("name") != cls.name:
            raise ConfigError(
                f"A model {cls.name!r} is required, got {state.values.get('name')!r}."
            )
        with whole_model(folder):
            model = cls(**state.values["settings"])
            model._take_shared(state)
            model._restore(state.prefixed("member."))
            model._load_native(folder)
        return model

    def unfitted(self, **changes: Any) -> Self:
        """Return a model with the same settings, but for ``changes``, that has learned nothing."""
        return type(self)(**{**self._all_settings(), **changes})

    @abstractmethod
    def _all_settings(self) -> dict[str, Any]:
        """Return what the constructor takes, as JSON can hold it."""

    @abstractmethod
    def _shared(self) -> State:
        """Return what models of every kind keep."""

    @abstractmethod
    def _take_shared(self, state: State) -> None:
        """Take over what ``_shared`` returned."""

    def _state(self) -> State:
        """Return what was learned and is no native file."""
        for name in (*self.learned_values, *self.learned_arrays):
            if not hasattr(self, f"_{name}"):
                raise ConfigError(
                    f"{type(self).__name__} must set self._{name}, which it names as learned "
                    f"({name!r}: an attribute without its underscore), and has not."
                )
        return State(
            values={name: getattr(self, f"_{name}") for name in self.learned_values},
            arrays={name: getattr(self, f"_{name}") for name in self.learned_arrays},
        )

    def _restore(self, state: State) -> None:
        """Take over what ``_state`` returned."""
        for name in self.learned_values:
            setattr(self, f"_{name}", state.values[name])
        for name in self.learned_arrays:
            setattr(self, f"_{name}", state.arrays[name])

    def _save_native(self, folder: Path) -> None:
        """Write what has a format of its own, such as a booster's JSON."""

    def _load_native(self, folder: Path) -> None:
        """Read what ``_save_native`` wrote."""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
