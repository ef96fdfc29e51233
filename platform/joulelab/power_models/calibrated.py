"""What the catalogue says of a GPU, with what was measured of one board in place of it."""

from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from joulelab.core.power_law import relative_time
from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import BoardFacts, ClockPoint
from joulelab.hardware.processor import VoltageCurve
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.board_fit import LEAST_CLOCKS, NAMES, fit_board
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.runs import Array

_STREAM = "stream"
_BUSY = 8.0
"""Log-odds of the working share of a load that never waits for its host."""
_MEMORY_TIMES, _KNEES = (0.0, 1.0, 3.0), (0.4, 0.6, 0.8)
"""Where the fit of a stream begins: logs of time in the memory over that in the core, and shares of
the highest clock."""


def calibrated_spec(spec: GpuSpec, facts: BoardFacts) -> GpuSpec:
    """Return ``spec`` with what ``facts`` say of one board of its kind.

    Voltage curve and constant power are fitted to power over clocks, as far as that shows them, and
    the clock below which memory starves to the rates of the stream. An observer has measured none
    of that; the rest is taken as :meth:`BoardFacts.on` does.
    """
    spec = facts.on(spec)
    spec = _with_knee(spec, [point for point in facts.curve if point.load == _STREAM])
    rows = [
        {
            "application": point.load,
            "sm_clock_mhz": point.sm_clock_mhz,
            "power_w": point.power_w,
            "time_s": 1.0 / point.rate_per_s,
        }
        for point in facts.curve
    ]
    try:
        found = fit_board(runs_of_rows(rows, gpu=spec.key), spec.default_power_limit_w)
    except ConfigError:  # too few clocks were held, which says nothing against the rest
        return spec
    voltage, power = spec.voltage, spec.power
    if found.knows_curve:
        voltage = VoltageCurve(**{name: found.values[name] for name in NAMES[:3]})
    if found.knows_constant:
        power = replace(power, constant_w=found.values["constant_w"])
    return replace(spec, voltage=voltage, power=power)


def _with_knee(spec: GpuSpec, stream: list[ClockPoint]) -> GpuSpec:
    if len(stream) < LEAST_CLOCKS:
        return spec
    clock_mhz = np.array([point.sm_clock_mhz for point in stream], dtype=float)
    top_mhz = float(clock_mhz.max())
    knee = _knee(clock_mhz / top_mhz, np.array([point.rate_per_s for point in stream]))
    return replace(spec, timing=replace(spec.timing, memory_knee_mhz=knee * top_mhz))


def _knee(ratio: Array, rate: Array) -> float:
    """Return the clock below which memory is starved, over the highest; the lowest if none is."""

    def missed(asked: Array) -> Array:
        memory, knee, level = asked
        parameters = np.tile((_BUSY, memory), (len(ratio), 1))
        time = relative_time(ratio, parameters, np.full(len(ratio), np.exp(knee)))
        return np.asarray(level - np.log(time) - np.log(rate))

    starts = [(m, np.log(k), np.log(rate.max())) for m in _MEMORY_TIMES for k in _KNEES]
    best = min((least_squares(missed, start) for start in starts), key=lambda fit: float(fit.cost))
    return float(np.clip(np.exp(best.x[1]), ratio.min(), 1.0))
