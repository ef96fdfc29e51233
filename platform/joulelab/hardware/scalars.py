"""Free scalars of a processor, by dotted name, such as ``"timing.memory_efficiency"``.

The names are those of the fields of :class:`joulelab.hardware.processor.Processor`; entries of
mappings follow their field's name, and memory levels are named: ``"levels.L2.byte_j"``.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from joulelab.errors import ConfigError
from joulelab.hardware.processor import MemoryLevel, Processor
from joulelab.registry import unknown_name

SECTION = "calibrated"
"""Section of a data file for scalars that micro-benchmarks gave."""

_LARGEST_CHANGE = 10.0
"""A fit that wants more of an energy, a bandwidth or an overhead has the wrong points."""
_LEAST_SHARE = 0.01
_UNSET = {"timing.window_s": 3e-9}
"""Around what a fit looks for scalars that are not set."""


_DEFAULTS: Mapping[str, Callable[[Any], float]] = {
    "stream_overhead_s": lambda timing: timing.kernel_overhead_s,
    "layout_efficiency": lambda timing: 1.0,
    "tensor_ceiling_start": lambda timing: 1.0,
}
"""What holds where a scalar is not known."""


def value_of(processor: Processor, name: str) -> float:
    """Return the value of a free scalar; 1 of a kind's efficiency that is not set.

    Raises:
        ConfigError: If there is no such scalar.
    """
    section, rest = _split(name)
    if section == "levels":
        level, field = _split(rest)
        return float(getattr(_level(processor, level), field))
    holder = getattr(processor, section, None)
    field, _, key = rest.partition(".")
    if holder is None or field not in {known.name for known in fields(holder)}:
        raise ConfigError(f"{name!r} must name a scalar of a processor, as 'power.constant_w'.")
    value = getattr(holder, field)
    if not key:
        return float(_DEFAULTS[field](holder) if value is None else value)
    if field == "kind_efficiency":
        return float(value.get(key, value.get(key.partition("_")[0], 1.0)))
    if field == "eager_launch_s":
        return float(value.get(key, value["default"]))
    if key not in value:
        raise unknown_name(f"{section}.{field} of {processor.key}", key, value)
    return float(value[key])


def calibrated(processor: Processor) -> Processor:
    """Return ``processor`` with the scalars that its data file has in ``[calibrated]``.

    The estimator uses all of them, the simulator those of times. Quoted names are those of scalars:
    ``"timing.kernel_overhead_s" = { value = ..., status = "F", source = ... }``.
    """
    prefix = f"{SECTION}."
    names = [name for name in processor.figures if name.startswith(prefix)]
    return with_values(
        processor, {name.removeprefix(prefix): processor.figures[name].value for name in names}
    )


def with_values(processor: Processor, values: Mapping[str, float]) -> Processor:
    """Return ``processor`` with other values of free scalars.

    Raises:
        ConfigError: If there is no such scalar.
    """
    for name, value in values.items():
        processor = _with_value(processor, name, float(value))
    return processor


def bounds_of(processor: Processor, name: str) -> tuple[float, float]:
    """Return the least and the largest value that the scalar may take in a fit."""
    if "efficiency" in name:
        return _LEAST_SHARE, 1.0
    value = value_of(processor, name) or _UNSET[name]
    return value / _LARGEST_CHANGE, value * _LARGEST_CHANGE


def _with_value(processor: Processor, name: str, value: float) -> Processor:
    value_of(processor, name)
    section, rest = _split(name)
    if section == "levels":
        level, field = _split(rest)
        change: dict[str, Any] = {field: value}
        changed = replace(_level(processor, level), **change)
        levels = tuple(changed if old.name == level else old for old in processor.levels)
        return replace(processor, levels=levels)
    holder = getattr(processor, section)
    field, _, key = rest.partition(".")
    new: Any = {**getattr(holder, field), key: value} if key else value
    section_changes: dict[str, Any] = {section: replace(holder, **{field: new})}
    return replace(processor, **section_changes)


def _split(name: str) -> tuple[str, str]:
    section, dot, rest = name.partition(".")
    if not dot:
        raise ConfigError(f"{name!r} must name a scalar of a processor, as 'power.constant_w'.")
    return section, rest


def _level(processor: Processor, name: str) -> MemoryLevel:
    for level in processor.levels:
        if level.name == name:
            return level
    raise unknown_name(f"memory level of {processor.key}", name, [n.name for n in processor.levels])
