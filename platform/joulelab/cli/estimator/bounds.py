"""Limits that an estimate is to keep to."""

from collections.abc import Mapping, Sequence

from joulelab.analysis.quantities import quantity
from joulelab.core.bounds import check_positive
from joulelab.estimator.estimate import Estimate
from joulelab.estimator.question import Cell

UNITS: Mapping[str, str] = {"latency": "s", "energy": "J", "power": "W", "memory": "B"}
_MOST = 1e30

Limits = Mapping[str, float | None]
"""The most of each of :data:`UNITS`; ``None`` where there is no limit."""


def check_limits(limits: Limits) -> None:
    """Refuse limits that nothing could keep to.

    Raises:
        ConfigError: If one is not positive and finite.
    """
    for name, limit in limits.items():
        check_positive(f"--max-{name}-{UNITS[name].lower()}", limit, _MOST)


def keeping(cells: Sequence[Cell], limits: Limits) -> list[Cell]:
    """Return the cells that fit their device's memory and keep to all of ``limits``."""
    return [
        cell
        for cell in cells
        if cell.estimate is not None and cell.estimate.fits and not missed(cell.estimate, limits)
    ]


def missed(estimate: Estimate, limits: Limits) -> list[str]:
    """Say by which figures ``estimate`` breaks ``limits``; empty if by none."""
    found = {
        "latency": estimate.latency_s,
        "energy": estimate.energy_j,
        "power": estimate.power_w,
        "memory": max(phase.memory.peak_b for phase in estimate.phases),
    }
    return [
        f"{name} {quantity(found[name], UNITS[name])} is above {quantity(limit, UNITS[name])}"
        for name, limit in limits.items()
        if limit is not None and found[name] > limit
    ]
