"""New data files of GPUs: what is stated of one, and what it takes over from a related one."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from joulelab.errors import ConfigError
from joulelab.hardware.catalogue import GPUS, clock_grid_mhz, spec_for
from joulelab.hardware.processor import Figure
from joulelab.hardware.spec import GpuSpec

Figures = Mapping[str, Figure]
"""Figures by dotted name, ``"section.name"``."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_RANGE = 2
"""Clocks that are the ends of a range, which has the steps of the other GPU."""


def stated(
    values: Mapping[str, Any], *, source: str, status: str = "U", other: GpuSpec
) -> dict[str, Figure]:
    """Return what is said of a GPU as figures; of two ``clocks.sm_mhz``, steps are the other's."""
    given = dict(values)
    clocks_mhz = given.pop("clocks.sm_mhz", None)
    if clocks_mhz:
        given |= _clocks(sorted(clocks_mhz))
    found = {
        name: Figure(value=value, status=status, source=source)  # type: ignore[arg-type]
        for name, value in given.items()
    }
    if "identity.architecture" not in found:
        found["identity.architecture"] = Figure(
            value=other.architecture, status="E", source=f"as of the {other.key}"
        )
    return found


def _clocks(clocks_mhz: Sequence[float]) -> dict[str, Any]:
    """Return the range of SM clocks, and where no one step makes them, all."""
    ends = {"clocks.sm_min_mhz": clocks_mhz[0], "clocks.sm_max_mhz": clocks_mhz[-1]}
    if len(clocks_mhz) == 1 or min(clocks_mhz) <= 0 or len({*clocks_mhz}) < len(clocks_mhz):
        raise ConfigError(
            "SM clocks must be at least two, different and positive: all that can be set, or the "
            f"lowest and the highest; got {clocks_mhz}."
        )
    if len(clocks_mhz) == _RANGE:
        return ends
    step_mhz = (clocks_mhz[-1] - clocks_mhz[0]) / (len(clocks_mhz) - 1)
    if clock_grid_mhz(clocks_mhz[0], clocks_mhz[-1], step_mhz) == tuple(reversed(clocks_mhz)):
        return {**ends, "clocks.sm_step_mhz": step_mhz}
    return {**ends, "clocks.sm_mhz": list(clocks_mhz)}


def board_text(key: str, like: str, figures: Figures) -> str:
    """Return the data file of a GPU like another; UnknownNameError, with the closest, if none."""
    heading = (
        f"# {key}: what it does not say is as of the {like}.\n#\n"
        "# status: U = stated by the user, S = sourced, F = fitted to measurements, D = derived,\n"
        f'# E = estimated.\n\nlike = "{GPUS[like].key}"\n\n'
    )
    return heading + figures_text(figures)


def figures_text(figures: Figures) -> str:
    """Return figures as the sections of a data file."""
    sections: dict[str, list[str]] = {}
    for name, figure in figures.items():
        section, _, key = name.partition(".")
        entry = ", ".join(
            f"{part} = {_toml(getattr(figure, part))}" for part in ("value", "status", "source")
        )
        lines = sections.setdefault(section, [f"[{section}]"])
        lines.append(f"{key if _BARE.fullmatch(key) else _toml(key)} = {{ {entry} }}")
    return "\n\n".join("\n".join(lines) for lines in sections.values()) + "\n"


def _toml(value: Any) -> str:
    """Return a text, a number, a switch or a list of them as TOML writes it, as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("NaN", "nan").replace("Infinity", "inf")


def check_names(spec: GpuSpec) -> None:
    """Refuse a user's GPU whose product name the catalogue has, by a ConfigError."""
    for name in spec.product_names:
        known = spec_for(name)
        if known is not None and known.key != spec.key:
            raise ConfigError(
                f"A product name must be of one GPU: {name!r} is the catalogue's {known.key} "
                "already. Use that one, or give another --product-name."
            )


def value_in(words: str) -> tuple[str, Any]:
    """Return name and value of ``SECTION.NAME=VALUE``, as TOML or text; else ConfigError."""
    name, sign, text = words.partition("=")
    if not (sign and text and name.count(".") >= 1):
        raise ConfigError(f"--set must be SECTION.NAME=VALUE, as power.idle_w=30, got {words!r}.")
    try:
        return name.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), text
