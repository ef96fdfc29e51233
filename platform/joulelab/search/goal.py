"""What a search minimises: ``ln E + a ln T - b ln Q``, so that units and scales drop out."""

from dataclasses import dataclass
from math import inf, log, sqrt

from joulelab.errors import ConfigError, MeasurementError
from joulelab.registry import unknown_name
from joulelab.search.base import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a configuration costs, on a scale on which 0.01 is one percent.

    Attributes:
        log: Natural logarithm of the cost; lower is better.
        u: Its standard uncertainty.
    """

    log: float
    u: float


def log_energy(figures: Figures) -> Cost:
    """Return the logarithm of the energy of a unit of work."""
    return Cost(log=log(figures.energy_j), u=figures.energy_u_j / figures.energy_j)


def log_time(figures: Figures) -> Cost:
    """Return the logarithm of the time of a unit of work."""
    return Cost(log=log(figures.time_s), u=figures.time_u_s / figures.time_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Energy, times a power of the time, over a power of the quality that is kept.

    Attributes:
        name: How reports call it.
        time_exponent: 0 for energy alone, 1 for EDP, 2 for ED2P; >= 0.
        quality_exponent: 0 where quality does not count; >= 0.
    """

    name: str
    time_exponent: float
    quality_exponent: float = 0.0

    def __post_init__(self) -> None:
        exponents = (self.time_exponent, self.quality_exponent)
        if not all(0 <= exponent < inf for exponent in exponents):
            raise ConfigError(f"Exponents must be finite and not negative, got {exponents}.")

    def cost(self, figures: Figures) -> Cost:
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
        value = energy.log + self.time_exponent * time.log
        variance = energy.u**2 + (self.time_exponent * time.u) ** 2
        if self.quality_exponent:
            quality = self._quality(figures)
            if quality <= 0:
                return Cost(log=inf, u=0.0)
            value -= self.quality_exponent * log(quality)
            variance += (self.quality_exponent * figures.retention_relative_u) ** 2
        return Cost(log=value, u=sqrt(variance))

    def _quality(self, figures: Figures) -> float:
        if figures.retention is None:
            raise MeasurementError(
                f"The goal {self.name} needs the share of quality that is kept; evaluate the "
                "quality with every trial, or choose a goal without it."
            )
        return figures.retention


GOALS = {
    goal.name: goal
    for goal in (
        Goal(name="energy", time_exponent=0.0),
        Goal(name="edp", time_exponent=1.0),
        Goal(name="ed2p", time_exponent=2.0),
        Goal(name="qep", time_exponent=1.0, quality_exponent=1.0),
    )
}
"""The usual goals; another one is a :class:`Goal` of its own."""


def goal_of(name: str) -> Goal:
    """Return the usual goal called ``name``.

    Raises:
        UnknownNameError: If there is none; names the closest ones.
    """
    if name not in GOALS:
        raise unknown_name("goal", name, GOALS)
    return GOALS[name]
