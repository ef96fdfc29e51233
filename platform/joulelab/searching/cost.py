"""What a configuration costs: ``a ln E + b ln T - c ln Q``, so that units and scales drop out."""

from dataclasses import dataclass
from math import hypot, inf, log, sqrt

from joulelab.errors import MeasurementError
from joulelab.objectives import Objective
from joulelab.searching.base import Figures

BOARD_TIME_SD, BOARD_POWER_SD = 0.01, 0.04
"""By how much time and power of boards of one kind differ (8 V100: 4 % of idle power)."""
BOARD_ENERGY_SD = hypot(BOARD_TIME_SD, BOARD_POWER_SD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The natural logarithm of a cost and its standard uncertainty: 0.01 is one percent."""

    log: float
    u: float


def log_energy(figures: Figures) -> Cost:
    """Return the logarithm of the energy of a unit of work."""
    return Cost(log=log(figures.energy_j), u=figures.energy_u_j / figures.energy_j)


def log_time(figures: Figures) -> Cost:
    """Return the logarithm of the time of a unit of work."""
    return Cost(log=log(figures.time_s), u=figures.time_u_s / figures.time_s)


def board_cost_sd(objective: Objective) -> float:
    """Return by how much the logarithm of a cost differs between boards of one kind."""
    a, b = objective.energy_exponent, objective.time_exponent
    return hypot(a * BOARD_POWER_SD, (a + b) * BOARD_TIME_SD)


def cost_of(objective: Objective, figures: Figures) -> Cost:
    """Return what ``figures`` cost.

    Errors of energy, time and quality are taken as independent. A quality without a stated
    uncertainty counts as exact, a lost one (retention 0) as an infinite cost.

    Raises:
        MeasurementError: If energy or time is not positive, or quality counts and was not
            evaluated.
    """
    if not (figures.energy_j > 0 and figures.time_s > 0):
        raise MeasurementError(
            "A cost needs positive energy and time, "
            f"got {figures.energy_j:g} J in {figures.time_s:g} s."
        )
    energy, time = log_energy(figures), log_time(figures)
    a, b, c = objective.energy_exponent, objective.time_exponent, objective.quality_exponent
    value = a * energy.log + b * time.log
    variance = (a * energy.u) ** 2 + (b * time.u) ** 2
    if c:
        quality = _quality(objective, figures)
        if quality <= 0:
            return Cost(log=inf, u=0.0)
        value -= c * log(quality)
        variance += (c * figures.retention_relative_u) ** 2
    return Cost(log=value, u=sqrt(variance))


def _quality(objective: Objective, figures: Figures) -> float:
    if figures.retention is None:
        raise MeasurementError(
            f"{objective.label} needs the share of quality that is kept; evaluate the quality "
            "with every trial, or choose an objective without it."
        )
    return figures.retention
