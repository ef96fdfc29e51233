"""Data files that say of a product only where it differs from a related one.

Such a file names the other product, ``like = "a100_sxm"``, and holds the figures that differ. What
it leaves out is taken over as an estimate, and says so in its source. What grows with the number of
SMs is scaled by it.
"""

from collections.abc import Mapping
from typing import Any

from joulelab.hardware.processor import Figure

Section = dict[str, Any]

_OWN = ("identity", "datasheet")
"""Sections that are of one product alone."""
_WHOLE = "operations_per_clock_per_sm"
"""Where a file has this section, it holds all units that the product has."""
_BY_UNIT = ("pipe_w_per_ghz", "pipe_efficiency")
"""Sections with one figure for each of those units."""
_PER_SM = (
    *("power.clock_tree_w_per_ghz", "power.sm_w_per_ghz", "power.leakage_w"),
    *("pipe_w_per_ghz.", "calibrated.power.clock_w_per_ghz", "calibrated.power.busy_w_per_ghz"),
)
"""Figures, or beginnings of their names, that grow with the number of SMs."""

_TAKEN = ("as of the ", "of the ")
"""How the source of a figure begins that was taken over."""
_REPLACED = {
    "levels.L2.size_b": "memory.l2_b",
    "levels.L2.bandwidth_b_per_s": "chip.l2_b_per_clock",
    "levels.L2.byte_j": "power.crossbar_j_per_b",
    "levels.DRAM.byte_j": "power.dram_j_per_b",
    "power.clock_w_per_ghz": "power.clock_tree_w_per_ghz",
    "power.busy_w_per_ghz": "power.sm_w_per_ghz",
    "power.flop_j.": "pipe_w_per_ghz.",
    "timing.pipe_efficiency.": "pipe_efficiency.",
    "timing.kind_efficiency.": "kind_efficiency.",
    "timing.graph_launch_s": "chip.graph_launch_s",
}
"""Calibrated scalars, or beginnings of their names, and the figures that they replace."""


def completed(own: Mapping[str, Section], other: Mapping[str, Section], name: str) -> Section:
    """Return the sections of a data file with what it leaves out as ``other`` has it.

    Args:
        own: Sections of the file.
        other: Sections of the related product's file, complete.
        name: The related product.
    """
    units = {**other["units"], **own.get("units", {})}
    ratio = units["sm_count"]["value"] / other["units"]["sm_count"]["value"]
    found: Section = {section: dict(figures) for section, figures in own.items()}
    taken = {
        key: _taken(figure, f"{_WHOLE}.{key}", name, ratio) for key, figure in other[_WHOLE].items()
    }
    pipes = found.setdefault(_WHOLE, taken)
    for section, figures in other.items():
        if section in (*_OWN, _WHOLE):
            continue
        kept = found.setdefault(section, {})
        for key, figure in figures.items():
            if key in kept or (section in _BY_UNIT and key not in pipes):
                continue
            if not (section == "calibrated" and _is_given(own, key)):
                kept[key] = _taken(figure, f"{section}.{key}", name, ratio)
    return found


def _is_given(own: Mapping[str, Section], calibrated: str) -> bool:
    """Whether a file says itself what a calibrated figure of the other would replace."""
    for beginning, replaced in _REPLACED.items():
        if calibrated.startswith(beginning):
            calibrated = calibrated.replace(beginning, replaced, 1)
    section, _, key = calibrated.partition(".")
    return key in own.get(section, {})


def is_taken(figure: Figure) -> bool:
    """Whether a figure was taken over from a related product."""
    return figure.status == "E" and figure.source.startswith(_TAKEN)


def _taken(figure: Mapping[str, Any], full_name: str, name: str, ratio: float) -> Section:
    by_size = full_name.startswith(_PER_SM) and ratio != 1
    value = figure["value"] * ratio if by_size else figure["value"]
    of = f"of the {name} by SM count" if by_size else f"as of the {name}"  # as in _TAKEN
    return {"value": value, "status": "E", "source": f"{of}: {figure['source']}"}
