"""Energy-delay-squared product as the cost."""

from joulelab.core.measurement import Measurement


def ed2p(measurement: Measurement) -> float:
    """Return joule-square-seconds per unit of work cubed."""
    return measurement.ed2p_js2
