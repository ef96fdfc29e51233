"""Coefficients of a simulated GPU, changed by factors.

What micro-benchmarks cannot say of a GPU in a machine, its host's speed above all, is a handful of
factors on figures of the catalogue. They belong to that machine, and not in the catalogue.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from joulelab.hardware.processor import Figure
from joulelab.hardware.scalars import SECTION
from joulelab.hardware.spec import GpuSpec
from joulelab.registry import unknown_name

COEFFICIENTS: Mapping[str, tuple[str, ...]] = {
    "host_launch": ("timing.eager_launch_s",),
    "host_python": ("timing.host_python",),
    "elementwise": ("timing.elementwise_slowdown",),
    "reread": ("timing.reread_slowdown",),
    "pipe_efficiency": ("timing.pipe_efficiency",),
    "constant_power": ("power.constant_w",),
    "core_power": ("power.sm_w_per_ghz", "power.pipe_w_per_ghz"),
}
"""Figures that each coefficient scales; of a mapping, all its entries."""


def scaled(spec: GpuSpec, factors: Mapping[str, float]) -> GpuSpec:
    """Return ``spec`` with coefficients times their factors; efficiencies stay at most 1.

    Figures of ``[calibrated]`` are scaled as those that they replace. Raises UnknownNameError if
    there is no such coefficient; names those that there are.
    """
    for coefficient, factor in factors.items():
        if coefficient not in COEFFICIENTS:
            raise unknown_name("coefficient", coefficient, COEFFICIENTS)
        for name in COEFFICIENTS[coefficient]:
            spec = _scaled(spec, name, factor)
    return spec


def _scaled(spec: GpuSpec, name: str, factor: float) -> GpuSpec:
    section, _, field = name.partition(".")
    changes: dict[str, Any] = {"figures": _figures(spec.figures, name, factor)}
    holder = getattr(spec, section)
    changes[section] = replace(holder, **{field: _times(getattr(holder, field), factor, name)})
    return replace(spec, **changes)


def _figures(figures: Mapping[str, Figure], name: str, factor: float) -> Mapping[str, Figure]:
    own = f"{SECTION}.{name}"
    return {
        key: replace(figure, value=_times(figure.value, factor, name))
        if key == own or key.startswith(f"{own}.")
        else figure
        for key, figure in figures.items()
    }


def _times(value: Any, factor: float, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _times(each, factor, name) for key, each in value.items()}
    return min(value * factor, 1.0) if "efficiency" in name else value * factor
