"""The source of a user's program, so that processes on other machines run the same."""

import ast
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from joulelab.errors import ConfigError
from joulelab.workloads.disk_cache import user_folder
from joulelab.workloads.programs import Programs, program_name

_MOST_B = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A program as it travels."""

    name: str  # its name, as measurements have it
    main: str  # path of its file among files; of an installed module, empty
    # Its file and those beside and below it that it imports, wherever the import stands: paths and
    # contents. Empty for an installed module, which the other machine must have installed too.
    files: tuple[tuple[str, bytes], ...]
    digest: str  # of the contents; of an installed module, of its file


def pack(programs: Programs, names: Iterable[str]) -> tuple[Parcel, ...]:
    """Return what other processes need to run programs; ConfigError if one cannot travel."""
    wanted = sorted(name for name in set(names) if name in programs)
    for name in wanted:
        if name not in programs.origins:
            raise ConfigError(
                f"{name} is an object of this process, and no other can find it; name it as "
                "FILE.py:NAME or MODULE:NAME."
            )
    return tuple(_packed(name, programs.origins[name]) for name in wanted)


def unpack(programs: Programs, parcels: Iterable[Parcel]) -> None:
    """Know the programs of ``parcels`` by name; ConfigError if one fails or differs here."""
    for parcel in parcels:
        if parcel.name not in programs:
            module = _installed(parcel) if not parcel.files else _written(programs, parcel)
            programs.place(parcel.name, module, parcel.name.rpartition(":")[2])


def _packed(name: str, module: ModuleType) -> Parcel:
    path = Path(module.__file__ or "")
    if _is_installed(path):
        return Parcel(name=name, main="", files=(), digest=_digest([path.read_bytes()]))
    place, _, _ = name.rpartition(":")
    depth = 0 if _is_file(name) else place.count(".") + (path.name == "__init__.py")
    root = path.resolve().parents[depth]
    found = {each.relative_to(root).as_posix(): each.read_bytes() for each in _needed(path, root)}
    size_b = sum(map(len, found.values()))
    if size_b > _MOST_B:
        raise ConfigError(
            f"{name} and what it imports from {root} has {size_b / 1e6:.0f} MB of source, more "
            f"than the {_MOST_B / 1e6:.0f} MB that travel with a job; install it on every node."
        )
    files = tuple(sorted(found.items()))
    digest = _digest(part for each, content in files for part in (each.encode(), content))
    main = path.resolve().relative_to(root).as_posix()
    return Parcel(name=name, main=main, files=files, digest=digest)


def _is_file(name: str) -> bool:
    named = program_name(name)
    return named is not None and named.is_file


def _is_installed(path: Path) -> bool:
    places = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    return any(path.is_relative_to(place) for place in places)


def _digest(parts: Iterable[bytes]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def _needed(path: Path, root: Path) -> set[Path]:
    """Return ``path`` and the files below ``root`` that it imports, those of these included."""
    found: set[Path] = set()
    waiting = [path.resolve()]
    while waiting:
        each = waiting.pop()
        if each in found:
            continue
        found.add(each)
        waiting += [file for parts in _imported(each, root) for file in _files_of(root, parts)]
    return found


def _imported(path: Path, root: Path) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start: tuple[str, ...] = ()
            if node.level:
                start = path.parents[node.level - 1].relative_to(root).parts
            start += tuple(node.module.split(".")) if node.module else ()
            yield from ((*start, alias.name) for alias in node.names)


def _files_of(root: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    for number in range(1, len(parts) + 1):
        base = root.joinpath(*parts[:number])
        yield from (f for f in (Path(f"{base}.py"), base / "__init__.py") if f.is_file())


def _installed(parcel: Parcel) -> ModuleType:
    place = parcel.name.rpartition(":")[0]
    try:
        module = importlib.import_module(place)
        digest = _digest([Path(module.__file__ or "").read_bytes()])
    except Exception as error:  # another's code may raise anything
        raise ConfigError(
            f"{place} cannot be imported here: {error!r} Install it on every node."
        ) from error
    if digest != parcel.digest:
        raise ConfigError(f"{place} is another one here; install the same on every node.")
    return module


def _written(programs: Programs, parcel: Parcel) -> ModuleType:
    root = user_folder("programs") / parcel.digest
    for name, content in parcel.files:
        path = root / name
        if not path.is_file() or path.read_bytes() != content:
            _write(path, content)
    if _is_file(parcel.name):
        return programs.execute(root / parcel.main)
    sys.path.insert(0, str(root))
    return importlib.import_module(parcel.name.rpartition(":")[0])


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.{os.getpid()}")
        made.write_bytes(content)
        made.replace(path)  # at once: others of this user may be reading it
    except OSError as error:
        raise ConfigError(f"The program cannot be written to {path}: {error}") from error
