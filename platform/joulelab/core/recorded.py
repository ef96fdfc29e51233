"""How recordings scatter, which state no uncertainty of their own and are seldom repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from joulelab.core.additive import AdditiveFit
from joulelab.core.configuration import Configuration
from joulelab.core.roughness import Roughness, roughness

Lines = Sequence[Sequence[tuple[str, float]]]
"""Names that differ in one setting, each with its value there."""


def lines_of(configurations: Mapping[str, Configuration]) -> Lines:
    """Return the lines of clocks, or of limits, along which configurations lie, by their names."""
    lines: dict[object, list[tuple[str, float]]] = {}
    for name, each in configurations.items():
        point, rest = each.point, (each.workload, each.knobs, each.point.mem_clock_mhz)
        if point.sm_clock_mhz is not None:
            line = lines.setdefault((*rest, point.power_limit_w), [])
            line.append((name, point.sm_clock_mhz))
        elif point.power_limit_w is not None:
            lines.setdefault(rest, []).append((name, point.power_limit_w))
    return list(lines.values())


def scatter_of(fit: AdditiveFit, lines: Lines) -> Roughness | None:
    """Return how recordings scatter: between repeats, or else along ``lines``.

    Returns:
        ``None`` where they neither repeat nor lie along a line: nothing tells.
    """
    if fit.residual_sd is not None:
        return Roughness(variance=fit.residual_sd**2, dof=fit.dof)
    value = dict(zip(fit.configurations, fit.estimate.tolist(), strict=True))
    return roughness(
        (np.array([at for _, at in line]), np.array([value[name] for name, _ in line]))
        for line in lines
    )


def with_scatter(fit: AdditiveFit, found: Roughness | None) -> AdditiveFit:
    """Return a fit of single recordings with how such scatter; open where that is not known."""
    if found is None:
        return replace(fit, is_open=True)
    return replace(
        fit,
        scatter=found.variance * np.eye(len(fit.estimate)),
        dof=found.dof,
        residual_sd=sqrt(found.variance),
    )
