"""Laws of physics and of bookkeeping that every estimate obeys: how close each comes to a break."""

from collections.abc import Iterable, Iterator, Sequence
from math import fsum, inf

import numpy as np

from joulelab.estimator.estimate import (
    COMPONENTS,
    EnergySplit,
    Estimate,
    Event,
    PhaseEstimate,
)
from joulelab.estimator.pricing.predict import Totals
from joulelab.hardware.processor import Processor


def cap_share(found: Totals, processors: Sequence[Processor]) -> float:
    """Return the largest power over the power limit, mean or of any group; at most 1."""
    caps_w = np.array([[processor.default_power_limit_w] for processor in processors])
    mean_w = found.total_energy_j / found.total_latency_s / found.num_devices
    peak_w = found.peak_power_w.max(axis=-1)
    return float((np.maximum(mean_w, peak_w) / caps_w).max())


def roofline_share(found: Totals) -> float:
    """Return the largest share of the time that peak rates alone would take; at most 1."""
    return float((found.roofline_s / found.latency_s).max())


def least_energy_j(found: Totals) -> float:
    """Return the least energy of any phase; above 0."""
    return float(found.energy_j.min())


def largest_shrinkage(small: Totals, large: Totals) -> float:
    """Return the largest ratio of energy of ``small`` to that of the larger batch; at most 1."""
    return float((small.total_energy_j / large.total_energy_j).max())


def partition_error(made: Estimate) -> float:
    """Return by how much groups and events miss what they divide, as a share of it.

    Infinite if a part is negative, or if there are no events.
    """
    return max(error for phase in made.phases for error in _errors_of_phase(phase))


def _errors_of_phase(phase: PhaseEstimate) -> Iterator[float]:
    yield _error((group.elapsed_s for group in phase.groups), phase.latency_s)
    for component in COMPONENTS:
        yield _error(
            (group.energy.of(component) for group in phase.groups), phase.energy.of(component)
        )
    yield from _errors_of_events(phase.events, phase.energy)
    for group in phase.groups:
        yield from _errors_of_events(group.events, group.energy)


def _errors_of_events(events: Sequence[Event], energy: EnergySplit) -> Iterator[float]:
    parts_j: dict[str, list[float]] = {component: [] for component in COMPONENTS}
    for event in events:
        parts_j[event.path.partition("/")[0]].append(event.energy_j)
    for component in COMPONENTS:
        yield _error(parts_j[component], energy.of(component))


def _error(parts: Iterable[float], whole: float) -> float:
    parts = list(parts)
    if min(parts, default=-1.0) < 0:
        return inf
    return abs(fsum(parts) - whole) / whole if whole else fsum(parts)
