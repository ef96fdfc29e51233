"""What a configuration must keep to, judged by how likely it does, and never mixed into its cost.

Order is by feasibility first (Deb, "An efficient constraint handling method for genetic
algorithms", Computer Methods in Applied Mechanics and Engineering 186, 2000): feasible ones by
cost, then the others by how far they are off. Quantities are measured, so a configuration counts
as feasible if it keeps to every constraint with a stated probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, hypot, inf, log, sqrt
from typing import Literal, get_args

from joulelab.errors import ConfigError, MeasurementError
from joulelab.registry import unknown_name
from joulelab.search.base import Figures
from joulelab.search.goal import Goal, log_energy, log_time

Quantity = Literal["quality", "slowdown", "latency_s", "power_w", "temperature_c", "memory_b"]
"""Retention, at least; the others at most. Slowdown is time over the baseline's, less 1."""

CONFIDENCE = 0.95
"""Probability of keeping to a constraint from which on a configuration counts as feasible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A bound on one measured quantity.

    Attributes:
        quantity: What is bounded.
        bound: Its lowest value for ``"quality"``, its highest for all others. Latency is that of
            one unit of work.
    """

    quantity: Quantity
    bound: float

    def __post_init__(self) -> None:
        if self.quantity not in get_args(Quantity):
            raise unknown_name("constraint", self.quantity, get_args(Quantity))
        if not (0 < self.bound < inf or (self.quantity == "slowdown" and self.bound == 0)):
            raise ConfigError(f"{self.quantity} needs a positive bound, got {self.bound:g}.")
        if self.quantity == "quality" and self.bound > 1:
            raise ConfigError(
                f"A floor of quality is a share of the baseline's, from 0 to 1, got {self.bound:g}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How a configuration stands with regard to all constraints.

    Attributes:
        violation: By how much bounds are missed, relative and summed; 0 if none is.
        probability: Of keeping to all of them, were their errors independent.
        confidence: Probability from which on it counts as feasible.
    """

    violation: float
    probability: float
    confidence: float = CONFIDENCE

    @property
    def is_feasible(self) -> bool:
        """Whether it keeps to all constraints with the confidence asked for."""
        return self.probability >= self.confidence


FREE = Judgement(violation=0.0, probability=1.0)
"""Where nothing is constrained."""


def judge(
    figures: Figures,
    baseline: Figures | None,
    constraints: Sequence[Constraint],
    *,
    confidence: float = CONFIDENCE,
) -> Judgement:
    """Say how likely ``figures`` keep to all ``constraints``.

    Args:
        figures: Of the configuration.
        baseline: Of the baseline, for a slowdown; ``None`` if it was not measured.
        constraints: The bounds.
        confidence: Probability from which on it counts as feasible.

    Raises:
        MeasurementError: If a bounded quantity was not measured.
    """
    violation, probability = 0.0, 1.0
    for constraint in constraints:
        excess, u = _excess(constraint, figures, baseline)
        violation += max(excess, 0.0)
        probability *= probability_below(0.0, excess, u)
    return Judgement(violation=violation, probability=probability, confidence=confidence)


def order_of(goal: Goal, figures: Figures, judgement: Judgement) -> tuple[int, float, float]:
    """Return the key by which configurations are sorted, best first.

    Feasible ones come by their cost. Of the others come first those that miss least, and among
    those that miss nothing but may, the likeliest.
    """
    if judgement.is_feasible:
        return (0, goal.cost(figures).log, 0.0)
    return (1, judgement.violation, -judgement.probability)


def probability_below(bound: float, value: float, u: float) -> float:
    """Return the probability that a normal quantity is at most ``bound``; exact where u is 0."""
    if u <= 0:
        return 1.0 if value <= bound else 0.0
    return (1 + erf((bound - value) / (u * sqrt(2)))) / 2


def _excess(
    constraint: Constraint, figures: Figures, baseline: Figures | None
) -> tuple[float, float]:
    """Return the logarithm of the quantity over its bound and its standard uncertainty.

    The sign is such that more than 0 is too much.
    """
    if constraint.quantity == "quality":
        kept = _known(figures.retention, constraint)
        if kept <= 0:
            return inf, 0.0
        return log(constraint.bound / kept), figures.retention_relative_u
    if constraint.quantity == "slowdown":
        return _slowdown(constraint, figures, baseline)
    value, u = _bounded(constraint, figures)
    return log(value / constraint.bound), u / value


def _slowdown(
    constraint: Constraint, figures: Figures, baseline: Figures | None
) -> tuple[float, float]:
    if baseline is None:
        raise MeasurementError("A slowdown is over the baseline: measure that first.")
    if figures == baseline:
        return -log(1 + constraint.bound), 0.0
    time, usual = log_time(figures), log_time(baseline)
    return time.log - usual.log - log(1 + constraint.bound), hypot(time.u, usual.u)


def _bounded(constraint: Constraint, figures: Figures) -> tuple[float, float]:
    values: dict[str, tuple[float | None, float]] = {
        "latency_s": (figures.time_s, figures.time_u_s),
        "power_w": (figures.power_w, figures.power_w * log_energy(figures).u),
        "temperature_c": (figures.temperature_c, 0.0),
        "memory_b": (figures.memory_b, 0.0),
    }
    value, u = values[constraint.quantity]
    return _known(value, constraint), u


def _known(value: float | None, constraint: Constraint) -> float:
    if value is None:
        raise MeasurementError(
            f"{constraint.quantity} is bounded by {constraint.bound:g} but was not measured; "
            "measure it with every trial, or drop the constraint."
        )
    return value
