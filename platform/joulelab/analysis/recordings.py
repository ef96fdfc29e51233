"""Recordings that are replayed: what counts as an observation, and how observations scatter."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from joulelab.core.additive import AdditiveFit
from joulelab.core.measurement import Measurement
from joulelab.core.roughness import roughness

Label = Callable[[Measurement], str]
"""Names what is compared: measurements of the same name are repeats of each other."""


def observations(valid: Sequence[Measurement], label: Label) -> list[Measurement]:
    """Keep one measurement of each recording: played again, it is no second observation."""
    kept: dict[object, Measurement] = {}
    for m in valid:
        again = (label(m), m.device.uuid, m.recording)
        kept.setdefault(again if m.recording else m.measurement_id, m)
    return list(kept.values())


Lines = Sequence[Sequence[tuple[str, float]]]
"""Labels that differ in one setting, each with its value there."""


def recorded_lines(counted: Sequence[Measurement], label: Label) -> Lines | None:
    """Return the lines along which single observations were made; ``None`` if programs ran."""
    if not all(m.recording for m in counted):
        return None
    lines: dict[object, dict[str, float]] = {}
    for m in counted:
        point, knobs = m.configuration.point, m.configuration.knobs
        rest = (m.configuration.workload, knobs, point.mem_clock_mhz)
        if point.sm_clock_mhz is not None:
            line = lines.setdefault((*rest, point.power_limit_w), {})
            line[label(m)] = point.sm_clock_mhz
        elif point.power_limit_w is not None:
            lines.setdefault(rest, {})[label(m)] = point.power_limit_w
    return [list(line.items()) for line in lines.values()]


def scattered(fit: AdditiveFit, lines: Lines | None) -> AdditiveFit:
    """Return the fit of single recordings with the scatter that they show along ``lines``.

    Recordings state no uncertainty of their own: where they neither repeat nor lie along a line,
    nothing tells how they scatter.
    """
    if lines is None or fit.dof:
        return fit
    cost = dict(zip(fit.configurations, fit.estimate.tolist(), strict=True))
    found = roughness(
        (np.array([at for _, at in line]), np.array([cost[name] for name, _ in line]))
        for line in lines
    )
    if found is None:
        return replace(fit, is_open=True)
    return replace(
        fit,
        scatter=found.variance * np.eye(len(cost)),
        dof=found.dof,
        residual_sd=sqrt(found.variance),
    )
