"""Where data files are: the package's, and those of GPUs in a folder of the user's own.

The folder is that of ``JOULELAB_HARDWARE``, else ``joulelab/hardware`` in the user's configuration
(``$XDG_CONFIG_HOME``, ``~/.config`` if that is not set). Each machine reads its own.
"""

import os
import re
from collections.abc import Hashable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from platform import node

from joulelab.errors import ConfigError

FOLDER_VARIABLE = "JOULELAB_HARDWARE"
ALIASES: Mapping[str, str] = {
    "a100": "a100_sxm",
    "h100": "h100_sxm",
    "h200": "h200_sxm",
    "v100": "v100_sxm2",
    "3090": "rtx_3090",
    "4090": "rtx_4090",
    "orin": "jetson_orin_agx",
    "jetson_orin_agx_gpu": "jetson_orin_agx",
    "jetson_orin_nano_8gb": "jetson_orin_nano",
    "altra_max": "altra_max_m128_30",
    "ampereone": "ampereone_a192_32x",
    "epyc_genoa": "epyc_9654",
    "epyc_bergamo": "epyc_9754",
    "epyc_turin": "epyc_9755",
    "xeon_8480+": "xeon_8480_plus",
    "xeon_8592+": "xeon_8592_plus",
    "coral": "coral_edge_tpu",
}
"""Short names, each for the usual form of a product."""

_GPUS, _OTHERS = "gpus", ("cpus", "tpus", "kpus")
_DATA = files("joulelab.hardware")
_KEY = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


@cache
def names_in(folder: str) -> tuple[str, ...]:
    """Return the names of the package's data files in ``folder``, without suffix, in order."""
    names = sorted(entry.name for entry in _DATA.joinpath(folder).iterdir())
    return tuple(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def gpu_names() -> list[str]:
    """Return the keys of all GPUs, also of the user's own; ConfigError if one has a wrong name."""
    return sorted([*names_in(_GPUS), *user_files()])


def place_of(folder: str, name: str) -> Traversable:
    """Return the data file ``name`` of ``folder``."""
    own = user_files().get(name) if folder == _GPUS else None
    return _DATA.joinpath(folder, f"{name}.toml") if own is None else own


def user_folder() -> Path:
    """Return the folder of the user's own GPUs, which need not be there."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).expanduser()
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".config") / "joulelab" / "hardware"


def user_paths() -> list[Path]:
    """Return the data files in that folder, whatever they hold, in order."""
    return sorted(path for path in user_folder().glob("*.toml") if not path.name.startswith("."))


def user_files() -> dict[str, Path]:
    """Return the data files of the user's own GPUs by key; ConfigError if one has a wrong name."""
    found = {path.stem: path for path in user_paths()}
    for key, path in found.items():
        check_key(key, path)
    return found


def check_key(key: str, path: Path) -> None:
    """Refuse a user's key that the package has, or that is none, by a ConfigError."""
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"A GPU's key must be of small letters, digits and single underscores, got {key!r} "
            f"for {path}: choose another name."
        )
    for folder in (_GPUS, *_OTHERS):
        if key in names_in(folder):
            other = _DATA.joinpath(folder, f"{key}.toml")
            raise ConfigError(
                f"{path} must have another name: the package has {key!r} already, in {other}."
            )
    if key in ALIASES:
        raise ConfigError(
            f"{path} must have another name: {key!r} is short for the package's {ALIASES[key]}."
        )


def is_of_user(key: str) -> bool:
    """Whether the GPU ``key`` is of the user's own."""
    return key not in names_in(_GPUS) and key in user_files()


def stamp_of(key: str) -> Hashable:
    """Return what changes when the user's files do; ``None`` for what is the package's."""
    if any(key in names_in(folder) for folder in (_GPUS, *_OTHERS)):
        return None
    states = ((path, path.stat()) for path in user_paths())
    return tuple((str(path), state.st_mtime_ns, state.st_size) for path, state in states)


def where_else() -> str:
    """Say where GPUs of the user's own are read from, for a message about an unknown one."""
    folder = user_folder()
    there = "" if folder.is_dir() else ", which is not there"
    return (
        f" GPUs of your own are read from {folder} of {node()}{there}; "
        "`joulelab hardware add` makes one."
    )
