"""Energy at one temperature: what leakage adds, as repeats within a study show it.

Leakage grows with temperature by watts that hardly depend on what runs. So one slope in watts per
kelvin is fitted to how power and temperature differ between repeats of the same on the same board;
random order makes that a matter of temperature alone. Where the power cap holds a board, heat takes
clocks rather than watts: such measurements neither tell of the slope, nor are they changed by it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.analysis.power_cap import is_held
from joulelab.core.additive import AdditiveFit
from joulelab.core.interaction import fit_on_boards
from joulelab.core.lines import Lines
from joulelab.core.measurement import Measurement
from joulelab.errors import ConfigError

Array = NDArray[np.float64]

_LEAST_DOF = 5
_MOST_CHANGE = 0.2  # of energy: what would be changed by more is another experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class TemperatureEffect:
    """By how much power grows with temperature in a phase, and where its energies are put."""

    reference_c: float  # temperature at which energies are reported
    power_per_k_w: float  # growth of power, in watts per kelvin
    u_power_per_k_w: float  # its standard uncertainty, by how repeats scatter
    dof: int
    coldest_c: float  # of what was measured
    hottest_c: float
    least_change: float  # relative change of an energy by the correction
    most_change: float

    @property
    def words(self) -> str:
        """What was done, in a sentence."""
        return (
            f"Energies are at {self.reference_c:g} °C. Between repeats, at {self.coldest_c:.0f} to "
            f"{self.hottest_c:.0f} °C, power grew by {self.power_per_k_w:.2f} ± "
            f"{self.u_power_per_k_w:.2f} W/K ({self.dof} degrees of freedom), which changes "
            f"energies by {self.least_change:+.1%} to {self.most_change:+.1%}; what the power cap "
            "held is as it was measured."
        )

    def corrected(self, logarithms: Array, measurements: Sequence[Measurement]) -> Array:
        """Return logarithms of energies as they would be at the reference temperature."""
        return logarithms + np.log1p(self.power_per_k_w * _shifts(measurements, self.reference_c))

    def errors(
        self, labels: Sequence[str], measurements: Sequence[Measurement], lines: Lines
    ) -> Array:
        """Return the standard error of each label's logarithm of energy by the slope's.

        All labels share it: of two that move alike, the ratio has none. ``lines`` are those that
        energies are fitted along. Shape ``(k,)``.
        """
        by_slope = self.u_power_per_k_w * _shifts(measurements, self.reference_c)
        boards = [m.device.uuid for m in measurements]
        return fit_on_boards(labels, boards, by_slope.tolist(), [0.0] * len(labels), lines).estimate


def with_shared_errors(fit: AdditiveFit, errors: Array) -> AdditiveFit:
    """Return a fit with errors of its estimates, shape ``(k,)``, that have one common cause."""
    error = np.outer(errors, errors)
    scatter = fit.scatter + error if fit.dof else fit.scatter
    return replace(fit, scatter=scatter, stated=fit.stated + error)


def temperature_effect(
    measurements: Sequence[Measurement], labels: Sequence[str], reference_c: float
) -> TemperatureEffect:
    """Fit the effect of temperature to measurements of one phase; those of one label are repeats.

    Raises ConfigError if a temperature is unknown, repeats do not tell the slope, or energies would
    change beyond recognition.
    """
    unread = sum(_temperature_c(m) is None for m in measurements)
    if unread:
        raise ConfigError(
            f"A reference temperature needs the temperature of every measurement; {unread} of "
            f"{len(measurements)} have none."
        )
    free = [(m, label) for m, label in zip(measurements, labels, strict=True) if not is_held(m)]
    slope, u, dof = power_per_kelvin(
        [_power_w(m) for m, _ in free],
        [_temperature_c(m) or 0.0 for m, _ in free],
        [(label, m.device.uuid) for m, label in free],
    )
    changes = slope * _shifts(measurements, reference_c)
    if np.abs(changes).max() > _MOST_CHANGE:
        raise ConfigError(
            f"reference_temperature_c must be near what was measured: at {reference_c:g} °C "
            f"energies would change by {np.abs(changes).max():.0%} ({slope:.2g} ± {u:.2g} W/K)."
        )
    temperatures_c = [_temperature_c(m) or 0.0 for m in measurements]
    return TemperatureEffect(
        reference_c=reference_c,
        power_per_k_w=slope,
        u_power_per_k_w=u,
        dof=dof,
        coldest_c=min(temperatures_c),
        hottest_c=max(temperatures_c),
        least_change=float(changes.min()),
        most_change=float(changes.max()),
    )


def power_per_kelvin(
    power_w: Sequence[float], temperature_c: Sequence[float], groups: Sequence[Hashable]
) -> tuple[float, float, int]:
    """Fit the growth of power with temperature within groups of repeats.

    Mean powers are in watts, with errors relative to them, temperatures in degrees Celsius; groups
    name what was measured, and on which board. Returns watts per kelvin, their standard
    uncertainty, and the degrees of freedom it rests on. Raises ConfigError if there are too few
    repeats, or none at another temperature.
    """
    number = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    at = np.array([number[group] for group in groups], dtype=np.intp)
    power, heat = np.array(power_w), np.array(temperature_c)
    count = np.bincount(at)
    dof = len(power) - len(count) - 1
    if dof < _LEAST_DOF:
        raise ConfigError(
            f"A reference temperature needs repeats: {len(power)} measurements of {len(count)} "
            f"points leave {dof} degrees of freedom, of which {_LEAST_DOF} are needed."
        )
    mean_w = (np.bincount(at, power) / count)[at]
    y, x = power / mean_w - 1.0, (heat - (np.bincount(at, heat) / count)[at]) / mean_w
    if not (spread := float(x @ x)):
        raise ConfigError("A reference temperature needs repeats at more than one temperature.")
    slope = float(x @ y) / spread
    missed = y - slope * x
    return slope, sqrt(float(missed @ missed) / dof / spread), dof


def _shifts(measurements: Sequence[Measurement], reference_c: float) -> Array:
    """Return by how much each energy changes, relative, for a slope of 1 W/K; shape ``(n,)``."""
    return np.array(
        [
            0.0 if is_held(m) else (reference_c - (_temperature_c(m) or 0.0)) / _power_w(m)
            for m in measurements
        ]
    )


def _power_w(measurement: Measurement) -> float:
    return measurement.energy_per_unit_j / measurement.time_per_unit_s


def _temperature_c(measurement: Measurement) -> float | None:
    observed = measurement.observed
    if observed.temperature_start_c is None or observed.temperature_stop_c is None:
        return None
    return (observed.temperature_start_c + observed.temperature_stop_c) / 2
