"""Time per unit of work as the cost."""

from joulelab.core.measurement import Measurement


def time(measurement: Measurement) -> float:
    """Return seconds per unit of work."""
    return measurement.time_per_unit_s
