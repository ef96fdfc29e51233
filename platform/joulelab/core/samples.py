"""Energy of an interval from power samples, with its uncertainty."""

import numpy as np

from joulelab.core.energy import EnergyWindow
from joulelab.core.trace import PowerTrace


def samples_window(
    trace: PowerTrace, start_s: float, stop_s: float, *, work: float = 0.0
) -> EnergyWindow:
    """Integrate power samples over an interval, and say how sure the integral is.

    A sensor sees part of the time: each of its updates is one draw from a power that moves
    between them, so the mean of ``n`` updates is as uncertain as their scatter about the
    course of the power over the square root of ``n``. To that the edges add what the power
    differs between start and stop, for the unknown age of a sample. Readings that repeat the
    one before are no new updates. Power that alternates in step with the sensor stays unseen.

    Args:
        trace: Power samples.
        start_s: Start, on the clock of the trace.
        stop_s: Stop, after ``start_s``.
        work: Units of work done in between.

    Raises:
        ConfigError: If ``stop_s <= start_s``.
        TraceCoverageError: If the trace does not span the interval.
    """
    energy_j = trace.energy_j(start_s, stop_s)
    inside = (trace.t_s >= start_s) & (trace.t_s <= stop_s)
    power_w = trace.power_w[inside]
    updates_w = power_w[np.r_[True, np.diff(power_w) != 0]] if power_w.size else power_w
    duration_s = stop_s - start_s
    scatter_w = _scatter_w(updates_w if updates_w.size >= 3 else trace.power_w)
    num_updates = max(1, updates_w.size)
    edge_w = np.diff(np.interp([start_s, stop_s], trace.t_s, trace.power_w))[0]
    spacing_s = duration_s / num_updates
    energy_u_j = np.hypot(
        scatter_w * duration_s / np.sqrt(num_updates), edge_w * spacing_s / np.sqrt(12)
    )
    return EnergyWindow(
        start_s=start_s,
        duration_s=duration_s,
        energy_j=energy_j,
        energy_u_j=float(energy_u_j),
        source="samples",
        work=work,
    )


def _scatter_w(power_w: np.ndarray) -> float:
    """Scatter of neighbours about each other, which a slow drift leaves alone (von Neumann)."""
    if power_w.size < 2:
        return 0.0
    return float(np.sqrt(np.mean(np.diff(power_w) ** 2) / 2))
