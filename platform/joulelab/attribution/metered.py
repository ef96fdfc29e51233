"""What the meter read of a phase, with the drift that attribution can bear."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from joulelab.core.measurement import InvalidReason, Measurement
from joulelab.core.statistics import mean_u
from joulelab.errors import MeasurementError

BORNE: frozenset[InvalidReason] = frozenset({"not_steady"})
"""Findings that leave energy and time of the windows known: a host whose pace drifts makes energy
per unit drift, by static power over longer gaps, which attribution tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """Energy and time per unit of work."""

    energy_j: float
    # Its standard uncertainty where its time is known: windows that took longer used more static
    # energy, which is no scatter of what kernels take.
    energy_u_j: float
    time_s: float
    note: str = ""  # what is not as it should be, in a sentence; empty if all is

    @classmethod
    def of(cls, read: Measurement, static_w: float) -> "Metered":
        """Return what was read of a phase.

        Raises:
            MeasurementError: If a finding voids it; says which.
        """
        require_metered(read)
        work = sum(window.work for window in read.windows)
        reading_u_j = float(np.linalg.norm([window.energy_u_j for window in read.windows])) / work
        dynamic_j = [(w.energy_j - static_w * w.duration_s) / w.work for w in read.windows]
        return cls(
            energy_j=sum(window.energy_j for window in read.windows) / work,
            energy_u_j=max(reading_u_j, mean_u(dynamic_j)),
            time_s=sum(window.duration_s for window in read.windows) / work,
            note=" ".join(f"{read.phase}: {finding.detail}" for finding in read.findings),
        )


def require_metered(read: Measurement) -> None:
    """Raise :class:`MeasurementError`, which says why, if a finding voids what was read."""
    voiding = [finding for finding in read.findings if finding.reason not in BORNE]
    if voiding or not read.windows:
        reasons = "; ".join(f"{finding.reason}: {finding.detail}" for finding in voiding)
        raise MeasurementError(f"{read.phase} could not be metered: {reasons}")


def static_power(measured: Mapping[str, Measurement], u: float) -> tuple[float, float]:
    """Return the power at rest, in watts, and its standard uncertainty.

    ``u`` is how far power at rest is from static power under load, relative.

    Raises:
        MeasurementError: If a phase could not be metered, or power at rest was not measured.
    """
    for read in measured.values():
        require_metered(read)
    idle = next((each.idle for each in measured.values() if each.idle is not None), None)
    if idle is None:
        raise MeasurementError("Attribution needs idle power; measure with idle_s above 0.")
    reading_u_w = idle.energy_u_j / idle.duration_s
    return idle.power_w, float(np.hypot(reading_u_w, u * idle.power_w))
