"""The voltage curve and constant power of a GPU, fitted to a sweep of its clocks.

By :mod:`joulelab.core.power_law`, power of an application at clock ``f`` is

    P = constant + v(f)^2 (clocked f + work / t) + memory / t

with ``t`` its time over that at the highest clock. The curve and the constant are the board's; the
other three, at least 0, are each application's and follow by linear least squares. A board that was
calibrated has them in place of what the catalogue says of its kind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares, nnls  # type: ignore[import-untyped]

from joulelab.core.power_law import relative_time
from joulelab.core.statistics import jackknife_u
from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import BoardFacts, ClockPoint
from joulelab.hardware.processor import VoltageCurve
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.runs import NEAR_CAP, Array, Flags, Runs

NAMES = ("ridge_mhz", "slope_per_ghz", "curvature_per_ghz2", "constant_w")
LEAST_CLOCKS = 6
"""Of one application: the board has four coefficients, the application up to three."""
LEAST_SPAN = 1.5
"""Highest over lowest clock: the constant is separated from the rest by how power falls."""
LARGEST_DOUBT = 0.25
"""Standard uncertainty over a value from which a sweep does not tell the value."""
_STARTS = (0.3, 0.5, 0.7, 0.85)
"""Of the range of clocks: where the ridge is looked for."""
_SCALE = np.array([1000.0, 1.0, 1.0, 100.0])
_STEP = 1e-4
_LEAST_CURVATURE = 1e-12
"""Where a sweep says nothing of a coefficient, its uncertainty is large, not infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFit:
    """What a sweep tells of a GPU."""

    values: Mapping[str, float]  # coefficients by name, as NAMES
    top_clock_mhz: float  # the highest clock of the sweep
    rise: float  # voltage there over its least, less 1
    # Its standard uncertainty: from what the fit leaves or, where that is more, from how fits
    # without one application each differ, for runs of an application err alike.
    rise_u: float
    constant_u_w: float  # that of the constant power
    error: float  # mean absolute relative error of power, of the runs that were fitted
    # That of each application when the curve and the constant come from the others, and its own
    # part from its runs at the highest and the lowest clock, on its other runs; empty with one
    # application.
    held_out: Mapping[str, float]
    num_runs: int
    num_capped: int  # runs that were left out, since a power limit held their clock

    @property
    def knows_curve(self) -> bool:
        """Whether the sweep tells the voltage curve."""
        return self.rise_u <= LARGEST_DOUBT * self.rise

    @property
    def knows_constant(self) -> bool:
        """Whether the sweep tells the constant power."""
        return self.constant_u_w <= LARGEST_DOUBT * self.values["constant_w"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Application:
    """Runs of one application, by clock."""

    name: str
    clock_mhz: Array
    power_w: Array
    rate: Array

    def part(self, coefficients: Array, rows: Sequence[int] | slice) -> Array:
        """Return its own coefficients, shape ``(3,)``, from some of its runs."""
        weight = 1.0 / self.power_w[rows]
        above_w = self.power_w[rows] - coefficients[3]
        columns = self._columns(coefficients)[rows] * weight[:, None]
        return np.asarray(nnls(columns, above_w * weight)[0])

    def missed(self, coefficients: Array, rows: Sequence[int] | slice = slice(None)) -> Array:
        """Return relative errors of power, with its own part from ``rows``."""
        own = self._columns(coefficients) @ self.part(coefficients, rows)
        return np.asarray((coefficients[3] + own) / self.power_w - 1.0)

    def _columns(self, coefficients: Array) -> Array:
        squared = _curve(coefficients).at(self.clock_mhz) ** 2
        return np.stack([squared * self.clock_mhz / 1e3, squared * self.rate, self.rate], axis=1)


def fit_board(runs: Runs, limit_w: float) -> BoardFit:
    """Fit voltage curve and constant power of one GPU, whose default power limit is ``limit_w``.

    Raises ConfigError if there are runs of several GPUs, or no application has clocks enough.
    """
    if len(set(runs.gpu.tolist())) != 1:
        raise ConfigError(
            f"A sweep must be of one GPU, got {', '.join(sorted(set(runs.gpu.tolist())))}: leave "
            "one in the table."
        )
    limits_w = np.where(np.isnan(runs.power_limit_w), limit_w, runs.power_limit_w)
    free = runs.power_w < (1.0 - NEAR_CAP) * limits_w
    found = _applications(runs, free)
    coefficients = _fitted(found)
    top_mhz = max(float(one.clock_mhz[-1]) for one in found)
    missed = _missed(found, coefficients)
    without = _without_each(found, coefficients) if len(found) > 1 else []
    left_u = np.array(_uncertainties(found, coefficients, top_mhz))
    figures = [(_rise(others, top_mhz), others[3]) for others in without]
    rise_u, constant_u_w = np.maximum(left_u, jackknife_u(figures) if figures else 0.0).tolist()
    return BoardFit(
        values=dict(zip(NAMES, coefficients.tolist(), strict=True)),
        top_clock_mhz=top_mhz,
        rise=_rise(coefficients, top_mhz),
        rise_u=rise_u,
        constant_u_w=constant_u_w,
        error=float(np.abs(missed).mean()),
        held_out=_held_out(found, without) if without else {},
        num_runs=len(missed),
        num_capped=int((~free).sum()),
    )


def _missed(found: Sequence[_Application], coefficients: Array) -> Array:
    return np.concatenate([one.missed(coefficients) for one in found])


def _rise(coefficients: Array, clock_mhz: float) -> float:
    return _curve(coefficients).at(clock_mhz) - 1.0


def _curve(coefficients: Array) -> VoltageCurve:
    return VoltageCurve(**dict(zip(NAMES[:3], coefficients[:3].tolist(), strict=True)))


def _applications(runs: Runs, free: Flags) -> list[_Application]:
    found = []
    for (_, name), rows in runs.by_pair():
        own = rows[free[rows]]
        clocks_mhz = runs.sm_clock_mhz[own]
        if len(set(clocks_mhz.tolist())) < LEAST_CLOCKS or np.ptp(np.log(clocks_mhz)) < np.log(
            LEAST_SPAN
        ):
            continue
        own = own[np.argsort(clocks_mhz)]
        time_s = runs.time_s[own]
        found.append(
            _Application(
                name=name,
                clock_mhz=runs.sm_clock_mhz[own],
                power_w=runs.power_w[own],
                rate=time_s[-1] / time_s,
            )
        )
    if not found:
        raise ConfigError(
            f"A sweep must have an application at {LEAST_CLOCKS} or more clocks below the power "
            f"limit, the highest at least {LEAST_SPAN} times the lowest; none of "
            f"{len(runs.pairs)} has."
        )
    return found


def _fitted(found: Sequence[_Application], start: Array | None = None) -> Array:
    """Return the board's coefficients of least squares of relative errors."""
    lowest = min(one.clock_mhz[0] for one in found)
    highest = max(one.clock_mhz[-1] for one in found)
    least_w = min(one.power_w.min() for one in found)
    bounds = np.array([[lowest, highest], [0.0, 3.0], [0.0, 3.0], [0.0, 0.99 * least_w]]).T
    starts = [
        np.array([lowest + share * (highest - lowest), 0.4, 0.3, 0.5 * least_w])
        for share in _STARTS
    ]
    tried = [
        least_squares(
            lambda scaled: _missed(found, scaled * _SCALE),
            np.clip(each, *bounds) / _SCALE,
            bounds=bounds / _SCALE,
            x_scale=0.1,
        )
        for each in (starts if start is None else [start])
    ]
    best = min(tried, key=lambda one: float(one.cost))
    return np.asarray(best.x * _SCALE)


def _uncertainties(
    found: Sequence[_Application], coefficients: Array, clock_mhz: float
) -> tuple[float, float]:
    """Return standard uncertainties of the rise of the voltage, and of the constant power."""

    def slopes(function: Callable[[Array], Array | float]) -> Array:
        steps = np.diag(_STEP * _SCALE)
        rises = [function(coefficients + step) - function(coefficients - step) for step in steps]
        return np.stack(rises, axis=-1) / (2.0 * _STEP)

    jacobian = slopes(lambda there: _missed(found, there))
    of_rise = slopes(lambda there: _rise(there, clock_mhz))
    num_free = len(jacobian) - len(_SCALE) - 3 * len(found)
    variance = float((_missed(found, coefficients) ** 2).sum()) / max(num_free, 1)
    curvature = jacobian.T @ jacobian + _LEAST_CURVATURE * np.eye(len(_SCALE))
    covariance = variance * np.linalg.inv(curvature)
    rise_u = float(np.sqrt(of_rise @ covariance @ of_rise))
    return rise_u, float(np.sqrt(covariance[3, 3]) * _SCALE[3])


def _without_each(found: Sequence[_Application], start: Array) -> list[Array]:
    """Return the board's coefficients when each application in turn is left out."""
    return [_fitted([other for other in found if other is not one], start) for one in found]


def _held_out(found: Sequence[_Application], without: Sequence[Array]) -> dict[str, float]:
    errors = {}
    for one, coefficients in zip(found, without, strict=True):
        missed = one.missed(coefficients, [0, -1])[1:-1]
        errors[one.name] = float(np.abs(missed).mean())
    return errors


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
