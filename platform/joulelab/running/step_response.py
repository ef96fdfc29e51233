"""By how much readings of power come late: the response to a load that sets in."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import hypot, sqrt
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from joulelab.core.configuration import Configuration
from joulelab.core.statistics import mean_u
from joulelab.devices.base import Device
from joulelab.hardware.board_facts import Fact
from joulelab.sampling.host import WorkloadHost

_RESTS_S = tuple(1.5 + 0.037 * number for number in range(8))
"""Longer than any reading averages, and of no common multiple with its ticks."""
_BEFORE_S, _LOAD_S = 0.4, 1.8
"""Together less than the buffer of samples holds, some 2.4 s."""
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
