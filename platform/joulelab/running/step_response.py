"""What a load shows of a board: how late readings come, where voltage rises, and its leakage.

Leakage is by how much power grows with temperature, watched while the board waits and cools.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import hypot, sqrt
from statistics import fmean, pvariance

import numpy as np
from numpy.typing import NDArray

from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.statistics import line_slope_and_u, mean_u, student_t
from joulelab.devices.base import Device
from joulelab.hardware.board_facts import ClockPoint, Fact
from joulelab.sampling.host import WorkloadHost

_RESTS_S = tuple(1.5 + 0.037 * number for number in range(8))
"""Longer than any reading averages, and of no common multiple with its ticks."""
_BEFORE_S, _LOAD_S = 0.4, 1.8  # together less than the buffer of samples holds, some 2.4 s
_RISEN_S = 1.3
_POLL_S = 0.01
_LEAST_STEP_W = 20.0

Array = NDArray[np.float64]


def measure_lags(device: Device, configuration: Configuration) -> Iterator[Fact]:
    """Yield the mean delay of the power reading and of the driver's samples, in seconds.

    The board's own rise, some tens of milliseconds, is part of it. A reading is anew only every so
    often, so that one step tells little: several are taken, at any time.
    """
    host = WorkloadHost(device)
    (phase,) = host.make(configuration).phases
    try:
        host.prepare()
        steps = [_step(device, host, phase, rest_s) for rest_s in _RESTS_S]
    finally:
        host.close()
    names = ("power_lag_s", "sample_lag_s")
    for name, found in zip(names, zip(*steps, strict=True), strict=False):
        yield _mean([lag_of(name, t_s, power_w, start_s) for t_s, power_w, start_s in found])


def _step(
    device: Device, host: WorkloadHost, phase: str, rest_s: float
) -> list[tuple[Array, Array, float]]:
    """Let a load set in; return times and power of each kind of reading, and when it began."""
    clock = device.clock
    polls: list[tuple[float, float]] = []
    clock.sleep_s(rest_s)
    ticker = clock.every(_POLL_S, lambda: polls.append((clock.now_s(), device.read_power_w())))
    try:
        clock.sleep_s(_BEFORE_S)
        start_s = clock.now_s()
        while clock.now_s() < start_s + _LOAD_S:
            host.run(phase)
    finally:
        ticker.stop()
    t_s, power_w = np.array(polls).T
    found = [(t_s, power_w, start_s)]
    if device.capabilities().has_power_samples:
        trace = device.read_power_samples()
        found.append((trace.t_s, trace.power_w, start_s))
    return found


def _mean(found: Sequence[Fact]) -> Fact:
    """Return the mean of several steps; what is wrong with one of them, if anything is."""
    values = [each.value for each in found if each.value is not None]
    if len(values) < len(found):
        return next(each for each in found if each.value is None)
    own_u = fmean(each.u or 0.0 for each in found)
    return replace(found[0], value=fmean(values), u=hypot(own_u, mean_u(values)))


def lag_of(name: str, t_s: Array, power_w: Array, start_s: float) -> Fact:
    """Return the mean delay of a step of power that begins at ``start_s``.

    It is the area between the reading and what it rises to, over the step. What power drifts by
    once it has risen is its uncertainty, and one reading.
    """
    risen_s = start_s + _RISEN_S
    middle_s = (risen_s + start_s + _LOAD_S) / 2
    before_w = power_w[t_s < start_s]
    early_w = power_w[(t_s >= risen_s) & (t_s < middle_s)]
    late_w = power_w[(t_s >= middle_s) & (t_s < start_s + _LOAD_S)]
    if min(before_w.size, early_w.size, late_w.size) < 2:
        return Fact(name=name, reason="too few readings about the step")
    level_w = float(np.concatenate([early_w, late_w]).mean())
    step_w = level_w - float(before_w.mean())
    if step_w < _LEAST_STEP_W:
        return Fact(name=name, reason=f"a step of {step_w:.0f} W, of {_LEAST_STEP_W:g} at least")
    within = (t_s >= start_s) & (t_s < risen_s)
    at_s = np.concatenate([[start_s], t_s[within], [risen_s]])
    missing = 1 - np.interp(at_s, t_s, power_w) / level_w
    missing *= level_w / step_w
    drift = abs(float(late_w.mean() - early_w.mean())) / step_w
    return Fact(
        name=name,
        value=float(np.trapezoid(missing, at_s)),
        u=hypot(drift * _RISEN_S, float(np.median(np.diff(t_s))) / sqrt(12)),
    )


RIDGE = "ridge_mhz"
_FEWEST = 10
_FEWEST_BESIDE = 3  # clocks on either side without which there is no telling where a knee is
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


COOLING = Procedure(
    idle_s=0.0, warmup_min_s=0.5, warmup_max_s=0.5, window_s=0.5, min_windows=50, limit_s=30.0
)
"""What power does while temperature falls, of a board that waits after a load: of an H200 five
kelvins in the first seconds. Under a load temperature and clock change at once, or neither does."""
_COOLING_DOWN = ("not_steady", "thermal_drift")
_LEAST_RANGE_C = 2.0
_SURE = 3.0  # a slope of fewer standard uncertainties is not distinguished from none


def leakage_of(record: Record) -> Fact:
    """Return how power changes with temperature over the windows of a board that cools down.

    That windows trend is what is looked for; anything else that is wrong with them is not.
    """
    name, found = "leakage_w_per_k", record.measurement
    wrong = [each for each in found.findings if each.reason not in _COOLING_DOWN]
    if wrong or not found.windows:
        return Fact(name=name, reason=found.reason)
    seen = [(look.at_s, look.state.temperature_c) for look in record.course.looks]
    known = [(at_s, celsius) for at_s, celsius in seen if celsius is not None]
    middles_s = [window.start_s + window.duration_s / 2 for window in found.windows]
    heat_c = np.interp(middles_s, *np.array(known).T) if known else np.zeros(1)
    range_c = float(np.ptp(heat_c))
    if range_c < _LEAST_RANGE_C:
        return Fact(
            name=name, reason=f"{range_c:.1f} kelvin of cooling, of {_LEAST_RANGE_C:g} at least"
        )
    power_w = [window.energy_j / window.duration_s for window in found.windows]
    slope, u = line_slope_and_u(heat_c, power_w)
    if slope < _SURE * u:
        return Fact(name=name, reason=f"{slope:.2g} ± {u:.1g} W per kelvin, which may be none")
    # Readings are of whole degrees, which flattens a slope over few of them; by how much is half
    # believed, as rounding is not quite random.
    flattened = 1 / 12 / pvariance(heat_c)
    slope /= 1 - flattened
    return Fact(name=name, value=float(slope), u=hypot(u, flattened / 2 * slope))
