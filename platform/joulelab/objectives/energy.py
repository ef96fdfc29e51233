"""Energy per unit of work as the cost."""

from joulelab.core.measurement import Measurement


def energy(measurement: Measurement) -> float:
    """Return joules per unit of work."""
    return measurement.energy_per_unit_j
