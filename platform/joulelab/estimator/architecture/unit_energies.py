"""Unit energies: one small table with a source for every value, read once."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import log

from joulelab.hardware.spec import Figure
from joulelab.registry import unknown_name

NODES_NM = (45.0, 7.0)
"""Process nodes of the two values of each figure."""

_WORD_B = 8


@cache
def figures() -> Mapping[str, Figure]:
    """Return every figure of the table as ``"section.name"``; values in picojoules."""
    text = files(__package__).joinpath("unit_energies.toml").read_text(encoding="utf-8")
    return {
        f"{section}.{name}": Figure(**entry)
        for section, entries in tomllib.loads(text).items()
        for name, entry in entries.items()
    }


@cache
def unit_j(name: str, node_nm: float) -> float:
    """Return the energy of one event called ``name`` in a process of ``node_nm``.

    A power law of the node runs through the two values of the table.

    Raises:
        UnknownNameError: If the table has no such event.
    """
    if name not in figures():
        raise unknown_name("unit energy", name, figures())
    first, last = figures()[name].value
    return _power_law(node_nm, NODES_NM, (first, last)) * 1e-12


@cache
def sram_byte_j(size_b: float, node_nm: float) -> float:
    """Return the energy of moving one byte to or from a memory on the die of ``size_b``.

    A power law of the size runs through the two nearest sizes of the table, beyond its ends as
    well.
    """
    sizes = [float(name.partition(".")[2]) for name in figures() if name.startswith("sram_word.")]
    above = next((i for i, size in enumerate(sizes) if i > 0 and size >= size_b), len(sizes) - 1)
    ends = (sizes[above - 1], sizes[above])
    words = tuple(unit_j(f"sram_word.{int(size)}", node_nm) for size in ends)
    return _power_law(size_b, ends, (words[0], words[1])) / _WORD_B


def _power_law(x: float, xs: tuple[float, float], ys: tuple[float, float]) -> float:
    exponent = log(ys[1] / ys[0]) / log(xs[1] / xs[0])
    return float(ys[0] * (x / xs[0]) ** exponent)
