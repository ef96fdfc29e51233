"""Free scalars of a processor, by dotted name.

The names, such as ``"timing.memory_efficiency"``, are those of the fields of
:class:`joulelab.hardware.processor.Processor`; entries of mappings follow their field's name, and
memory levels are named: ``"levels.L2.byte_j"``.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
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
    """Return a free scalar, 1 of a kind that is not set; ConfigError if there is no such scalar."""
    holder, field, key = _place(processor, name)
    value = getattr(holder, field)
    if not key:
        return float(_DEFAULTS[field](holder) if value is None else value)
    if field == "kind_efficiency":
        return float(value.get(key, value.get(key.partition("_")[0], 1.0)))
    if field == "eager_launch_s":
        return float(value.get(key, value["default"]))
    if field == "least_s":
        return float(value.get(key, holder.kernel_overhead_s))
    if key not in value:
        raise unknown_name(f"{name.removesuffix(f'.{key}')} of {processor.key}", key, value)
    return float(value[key])


def calibrated(processor: Processor) -> Processor:
    """Return ``processor`` with the scalars that its data file has in ``[calibrated]``.

    The estimator uses all of them, the simulator those of times. Quoted names are those of scalars:
    ``"timing.kernel_overhead_s" = { value = ..., status = "F", source = ... }``.
    """
    prefix = f"{SECTION}."
    figures = {name: one for name, one in processor.figures.items() if name.startswith(prefix)}
    return with_values(
        processor, {name.removeprefix(prefix): one.value for name, one in figures.items()}
    )


def with_values(processor: Processor, values: Mapping[str, float]) -> Processor:
    """Return ``processor`` with other free scalars; ConfigError if there is no such scalar."""
    for name, value in values.items():
        value_of(processor, name)
        holder, field, key = _place(processor, name)
        new: Any = {**getattr(holder, field), key: float(value)} if key else float(value)
        changed: Any = replace(holder, **{field: new})
        section = name.partition(".")[0]
        if section == "levels":
            changed = tuple(changed if level is holder else level for level in processor.levels)
        changes: dict[str, Any] = {section: changed}
        processor = replace(processor, **changes)
    return processor


def bounds_of(processor: Processor, name: str) -> tuple[float, float]:
    """Return the least and the largest value that the scalar may take in a fit."""
    if "efficiency" in name:
        return _LEAST_SHARE, 1.0
    value = value_of(processor, name) or _UNSET[name]
    return value / _LARGEST_CHANGE, value * _LARGEST_CHANGE


def _place(processor: Processor, name: str) -> tuple[Any, str, str]:
    """Return what holds a scalar, the field, and the entry of it where that is a mapping."""
    section, _, rest = name.partition(".")
    field, _, key = rest.partition(".")
    holder = getattr(processor, section, None)
    if section == "levels":
        holder, field, key = _level(processor, field), key, ""
    if not is_dataclass(holder) or field not in {known.name for known in fields(holder)}:
        raise ConfigError(f"{name!r} must name a scalar of a processor, as 'power.constant_w'.")
    return holder, field, key


def _level(processor: Processor, name: str) -> MemoryLevel:
    for level in processor.levels:
        if level.name == name:
            return level
    raise unknown_name(f"memory level of {processor.key}", name, [n.name for n in processor.levels])
