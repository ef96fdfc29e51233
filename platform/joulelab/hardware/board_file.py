"""The data file of a GPU: completed by that of a related one, and whether it can be.

A file that says of a product only where it differs from a related one names that one,
``like = "a100_sxm"``, and holds the figures that differ. What it leaves out is taken over as an
estimate, and says so in its source. What grows with the number of SMs is scaled by it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any, get_args

from joulelab.core.cost import PIPES
from joulelab.hardware.processor import Figure, Status, Tier, VoltageCurve
from joulelab.hardware.spec import (
    ChipSpec,
    LinkSpec,
    PowerSpec,
    SensorSpec,
    ThermalSpec,
    TimingSpec,
)

Section = dict[str, Any]

_OWN = ("identity", "datasheet")
"""Sections that are of one product alone."""
_UNITS = "operations_per_clock_per_sm"
"""Where a file has this section, it holds all units that the product has."""
_OF_UNITS = ("pipe_w_per_ghz", "pipe_efficiency")
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
    """Return sections with what they leave out as the complete ones of ``name`` have it."""
    units = {**other["units"], **own.get("units", {})}
    ratio = units["sm_count"]["value"] / other["units"]["sm_count"]["value"]
    found: Section = {section: dict(figures) for section, figures in own.items()}
    taken = {
        key: _taken(figure, f"{_UNITS}.{key}", name, ratio) for key, figure in other[_UNITS].items()
    }
    pipes = found.setdefault(_UNITS, taken)
    for section, figures in other.items():
        if section in (*_OWN, _UNITS):
            continue
        kept = found.setdefault(section, {})
        for key, figure in figures.items():
            if key in kept or (section in _OF_UNITS and key not in pipes):
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


Sections = Mapping[str, Mapping[str, Any]]
Names = tuple[frozenset[str], frozenset[str]]
"""Figures that a section must have, and may have."""


def _names(*required: str, optional: Sequence[str] = ()) -> Names:
    return frozenset(required), frozenset([*required, *optional])


def _names_of(kind: type, *, without: Sequence[str] = (), also: Sequence[str] = ()) -> Names:
    own = [each for each in fields(kind) if each.name not in without]
    needed = [one for one in own if one.default is MISSING and one.default_factory is MISSING]
    optional = [each.name for each in own]
    return _names(*(each.name for each in needed), *also, optional=optional)


_SECTIONS: Mapping[str, Names] = {
    "identity": _names("product_names", "architecture"),
    "clocks": _names(
        *("sm_min_mhz", "sm_max_mhz", "sm_step_mhz", "default_mhz", "idle_mhz"),
        *("mem_mhz", "mem_lockable"),
        optional=("study_min_mhz", "stays_at_default", "sm_mhz"),
    ),
    "limits": _names("min_w", "max_w", "default_w"),
    "units": _names("sm_count"),
    "memory": _names("bandwidth_b_per_s", "size_b", "l2_b"),
    "sensor": _names_of(SensorSpec),
    "thermal": _names_of(ThermalSpec),
    "voltage": _names_of(VoltageCurve),
    "power": _names_of(PowerSpec, without=("pipe_w_per_ghz",)),
    "timing": _names_of(
        TimingSpec,
        without=(
            *("eager_launch_s", "graph_launch_s", "pipe_efficiency", "kind_efficiency", "least_s"),
        ),
        also=("host_launch_s",),
    ),
    "chip": _names_of(ChipSpec, also=("graph_launch_s",)),
    "link": _names_of(LinkSpec),
}
_BY_UNIT = (_UNITS, *_OF_UNITS)
_FREE = ("datasheet", "kind_efficiency", "calibrated")
_POSITIVE = ("clocks", "limits", "units", "memory", "pipe_efficiency", _UNITS)
_SIGNED = ("curvature_per_ghz2",)
_WORDS = ("identity.product_names", "identity.architecture", "chip.tier")
_SWITCHES = ("mem_lockable", "stays_at_default", "has_memory_power", "has_activity")
_LISTS = ("mem_mhz", "sm_mhz", "resistance_k_per_w", "time_constant_s", "tiles", "product_names")
_ORDERS = (
    ("clocks.sm_min_mhz", "clocks.default_mhz", "clocks.sm_max_mhz"),
    ("clocks.sm_min_mhz", "clocks.study_min_mhz", "clocks.sm_max_mhz"),
    ("clocks.idle_mhz", "clocks.sm_max_mhz"),
    ("limits.min_w", "limits.default_w", "limits.max_w"),
    ("power.idle_w", "limits.max_w"),
    ("power.memory_idle_w", "power.constant_w"),
)


def own_problems(sections: Sections) -> list[str]:
    """Return what is wrong with the figures that a data file has itself, a sentence each."""
    return [*_shape(sections)] or [*_unknown(sections), *_values(sections)]


def problems_of(sections: Sections) -> list[str]:
    """Return why a completed data file of a GPU cannot be used, a sentence each; none if it can."""
    return [*_missing(sections), *_disordered(sections)]


def _shape(sections: Sections) -> Iterator[str]:
    for section, entries in sections.items():
        if not isinstance(entries, Mapping):
            yield f"{section} must be a section of figures, got {entries!r}."
            continue
        for name, entry in entries.items():
            keys = {*entry} if isinstance(entry, Mapping) else set()
            if keys != {"value", "status", "source"} or not entry["source"]:
                yield (
                    f"{section}.{name} must be {{ value = ..., status = ..., source = ... }}, "
                    f"got {entry!r}."
                )
            elif entry["status"] not in get_args(Status):
                yield (
                    f"{section}.{name} must have a status of {', '.join(get_args(Status))}, "
                    f"got {entry['status']!r}."
                )


def _missing(sections: Sections) -> Iterator[str]:
    for section, (required, _) in _SECTIONS.items():
        for name in sorted(required - {*sections.get(section, ())}):
            yield f"{section}.{name} is missing: state it."
    units = sections.get(_UNITS, {})
    if not units:
        yield f"{_UNITS} is missing: state the operations of each unit that there is."
    for section in _OF_UNITS:
        for name in units:
            if name not in sections.get(section, {}):
                yield f"{section}.{name} is missing: {_UNITS} has this unit."


def _unknown(sections: Sections) -> Iterator[str]:
    known = {section: names for section, (_, names) in _SECTIONS.items()}
    known |= dict.fromkeys(_BY_UNIT, frozenset(PIPES))
    for section, entries in sections.items():
        if section in _FREE:
            continue
        if section not in known:
            yield f"{section} is no section.{_close(section, [*known, *_FREE])}"
            continue
        for name in entries:
            if name not in known[section]:
                yield f"{section}.{name} is no figure.{_close(name, known[section])}"


def _close(name: str, known: Sequence[str] | frozenset[str]) -> str:
    close = get_close_matches(name, known)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def _values(sections: Sections) -> Iterator[str]:
    for section, entries in sections.items():
        for name, entry in entries.items():
            wrong = _wrong(section, name, entry["value"])
            if wrong:
                yield f"{section}.{name} must be {wrong}, got {_shown(entry['value'])}."


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _wrong(section: str, name: str, value: Any) -> str | None:
    """Return what the value of a figure had to be; ``None`` if it is."""
    if f"{section}.{name}" in _WORDS:
        if name == "tier":
            return None if value in get_args(Tier) else f"one of {', '.join(get_args(Tier))}"
        texts = value if isinstance(value, list) and name in _LISTS else [value]
        is_list = isinstance(value, list) == (name in _LISTS)
        if is_list and texts and all(isinstance(each, str) and each for each in texts):
            return None
        return "a list of texts" if name in _LISTS else "a text"
    if name in _SWITCHES:
        return None if isinstance(value, bool) else "true or false"
    if name in _LISTS or section == "datasheet":
        return None if value and _all_positive(value) else "a list of positive numbers"
    return _wrong_number(section, name, value)


def _wrong_number(section: str, name: str, value: Any) -> str | None:
    if not _is_number(value):
        return "a number"
    if name in _SIGNED:
        return None
    if value < 0 or (value == 0 and section in _POSITIVE):
        return "positive" if section in _POSITIVE else "at least 0"
    return "at most 1" if "efficiency" in name + section and value > 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _all_positive(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_all_positive, value))
    return _is_number(value) and value > 0


def _disordered(sections: Sections) -> Iterator[str]:
    for order in _ORDERS:
        values = {name: _at(sections, name) for name in order}
        known = {name: value for name, value in values.items() if _is_number(value)}
        if list(known.values()) != sorted(known.values()):
            got = ", ".join(f"{name} = {value:g}" for name, value in known.items())
            yield f"{' <= '.join(known)} is required, got {got}: state what is not as copied."
    nodes = [_at(sections, f"thermal.{name}") for name in ("resistance_k_per_w", "time_constant_s")]
    if all(isinstance(each, list) for each in nodes) and len(nodes[0]) != len(nodes[1]):
        yield "thermal.resistance_k_per_w and time_constant_s must be as many."


def _at(sections: Sections, name: str) -> Any:
    section, _, key = name.partition(".")
    return sections.get(section, {}).get(key, {}).get("value")
