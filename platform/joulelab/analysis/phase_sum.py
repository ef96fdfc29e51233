"""Phases that count the same unit of work, added up."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import hypot

from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Measurement


def summed(measurements: Sequence[Measurement], phase: str) -> list[Measurement]:
    """Add up the phases of each attempt, which count the same unit of work.

    The sum of an attempt whose phases are not all valid has their findings. Uncertainties are
    of independent readings.

    Args:
        measurements: Measurements of all phases.
        phase: Name of the sum.
    """
    attempts: defaultdict[tuple[str, int, str], list[Measurement]] = defaultdict(list)
    for m in measurements:
        attempts[m.trial, m.attempt, m.device.uuid].append(m)
    return [_sum(parts, phase) for parts in attempts.values()]


def _sum(parts: Sequence[Measurement], phase: str) -> Measurement:
    first, findings = parts[0], tuple(f for m in parts for f in m.findings)
    name = f"{first.measurement_id}+"
    if findings:
        return replace(first, measurement_id=name, phase=phase, windows=(), findings=findings)
    window = EnergyWindow(
        start_s=first.windows[0].start_s,
        duration_s=sum(m.time_per_unit_s for m in parts),
        energy_j=sum(m.energy_per_unit_j for m in parts),
        energy_u_j=hypot(*(m.energy_per_unit_u_j for m in parts)),
        source=first.windows[0].source,
        work=1.0,
    )
    return replace(first, measurement_id=name, phase=phase, windows=(window,))
