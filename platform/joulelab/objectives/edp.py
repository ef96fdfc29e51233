"""Energy-delay product as the cost."""

from joulelab.core.measurement import Measurement


def edp(measurement: Measurement) -> float:
    """Return joule-seconds per unit of work squared."""
    return measurement.edp_js
