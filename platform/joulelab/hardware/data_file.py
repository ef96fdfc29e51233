"""Data files of the catalogue: TOML in which every figure carries its status and source.

A figure is an inline table ``{ value = ..., status = "S", source = "..." }``; it stands in a
section, or in a section of a section, e.g. ``[power]`` or ``[levels.L2]``.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from joulelab.hardware.spec import Figure

_DATA = files("joulelab.hardware")


def names_in(folder: str) -> Iterator[str]:
    """Yield the names of the data files of ``folder``, without their suffix, in order."""
    names = sorted(entry.name for entry in _DATA.joinpath(folder).iterdir())
    return (name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_data_file(folder: str, name: str) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Return the values of a data file, nested as its sections, and its figures by dotted name."""
    text = _DATA.joinpath(folder, f"{name}.toml").read_text(encoding="utf-8")
    sections = tomllib.loads(text)
    return _values(sections), dict(_figures(sections))


def _values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _value(entry["value"]) if "value" in entry else _values(entry)
        for name, entry in section.items()
    }


def _figures(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Figure]]:
    for name, entry in section.items():
        if "value" in entry:
            yield prefix + name, Figure(**entry)
        else:
            yield from _figures(entry, f"{prefix}{name}.")


def _value(value: Any) -> Any:
    return tuple(_value(item) for item in value) if isinstance(value, list) else value
