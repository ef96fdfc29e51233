"""From which clock on voltage rises: the knee of a load's power over clocks."""

from collections.abc import Sequence
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.core.statistics import student_t
from joulelab.hardware.board_facts import ClockPoint, Fact

Array = NDArray[np.float64]

RIDGE = "ridge_mhz"
_FEWEST = 10
_FEWEST_BESIDE = 3
"""Clocks on either side without which there is no telling where a knee is."""
_STEP_MHZ = 5.0
_LEAST_GAIN = 11.3
"""Squares by which a knee must be better than none: three more figures at 1 %, by chi-squared."""


def ridge_of(curve: Sequence[ClockPoint], load: str) -> Fact:
    """Return the knee, in megahertz.

    Below it power is a line over the clock; above it the slope of that line is multiplied by the
    voltage squared, a polynomial of the clock above the knee. For a given knee that is linear in
    what is unknown; the knee is the one of least squares. It is known no better than squares and
    the distance of clocks allow (Bates, Watts, "Nonlinear Regression Analysis", 1988, 6.1).
    """
    points = sorted((p.sm_clock_mhz, p.power_w, p.power_u_w) for p in curve if p.load == load)
    if len(points) < _FEWEST:
        why = f"{load} was valid at {len(points)} clocks, of {_FEWEST} at least"
        return Fact(name=RIDGE, reason=why)
    clock_mhz, power_w, u_w = np.array(points).T
    knees = np.arange(clock_mhz[_FEWEST_BESIDE], clock_mhz[-_FEWEST_BESIDE - 1], _STEP_MHZ)
    squares = np.array([_squares(clock_mhz, power_w, u_w, knee_mhz) for knee_mhz in knees])
    dof = len(points) - 5
    near = knees[squares <= squares.min() * (1 + student_t(0.683, dof + 1) ** 2 / dof)]
    line = _squares(clock_mhz, power_w, u_w, clock_mhz[-1])
    if line - squares.min() < _LEAST_GAIN or near[0] == knees[0] or near[-1] == knees[-1]:
        why = f"{load} shows no knee between {knees[0]:.0f} and {knees[-1]:.0f} MHz"
        return Fact(name=RIDGE, reason=why)
    apart_mhz = float(np.median(np.diff(clock_mhz)))
    u_mhz = hypot(float(np.ptp(near)) / 2, apart_mhz / sqrt(12))
    return Fact(name=RIDGE, value=float(knees[squares.argmin()]), u=u_mhz)


def _squares(clock_mhz: Array, power_w: Array, u_w: Array, knee_mhz: float) -> float:
    """Return the weighted squares that a knee leaves."""
    ghz = clock_mhz / 1000
    above_ghz = np.maximum(0.0, clock_mhz - knee_mhz) / 1000
    columns = np.stack([np.ones_like(ghz), ghz, ghz * above_ghz, ghz * above_ghz**2], axis=1)
    found, *_ = np.linalg.lstsq(columns / u_w[:, None], power_w / u_w, rcond=None)
    left = (power_w - columns @ found) / u_w
    return float(left @ left)
