"""What a configuration must keep to, judged by how likely it does, and never mixed into its cost.

Order is by feasibility first (Deb, "An efficient constraint handling method for genetic
algorithms", Computer Methods in Applied Mechanics and Engineering 186, 2000): feasible ones by
cost, then the others by how far they are off. Quantities are measured, so a configuration counts
as feasible if it keeps to every constraint with a stated probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf, exp, hypot, inf, log, sqrt
from typing import Literal, get_args

from joulelab.errors import ConfigError, MeasurementError
from joulelab.objectives import Objective
from joulelab.registry import unknown_name
from joulelab.searching.base import Figures, cost_of, log_energy, log_time

Quantity = Literal[
    "quality",
    "slowdown",
    "latency_s",
    "ttft_s",
    "tpot_s",
    "throughput_per_s",
    "power_w",
    "temperature_c",
    "memory_b",
]
"""Retention and throughput, at least; the others at most. Slowdown is time over that at the
driver's clock, less 1; latency is that of a request with all of its batch, TTFT to its first token,
TPOT per token of a sequence after that; throughput is in units of work per second."""
Against = Literal["cell", "baseline"]
"""The driver's clock at the same knobs of the workload, or the baseline of the whole search."""

AT_LEAST: tuple[Quantity, ...] = ("quality", "throughput_per_s")
"""What is to be high."""

CONFIDENCE = 0.95
"""Probability of keeping to a constraint from which on a configuration counts as feasible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A bound on one measured quantity."""

    quantity: Quantity
    bound: float  # lowest value for quality and throughput_per_s, highest for all others
    # What a slowdown is over: by default the same batch and format at the driver's clock, so that a
    # larger batch does not pay for a low clock.
    against: Against = "cell"

    def __post_init__(self) -> None:
        if self.quantity not in get_args(Quantity):
            raise unknown_name("constraint", self.quantity, get_args(Quantity))
        if self.against not in get_args(Against):
            raise unknown_name("reference of a slowdown", self.against, get_args(Against))
        if not (0 < self.bound < inf or (self.quantity == "slowdown" and self.bound == 0)):
            raise ConfigError(f"{self.quantity} needs a positive bound, got {self.bound:g}.")
        if self.quantity == "quality" and self.bound > 1:
            raise ConfigError(
                f"A floor of quality is a share of the baseline's, from 0 to 1, got {self.bound:g}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How a configuration stands with regard to all constraints."""

    violation: float  # by how much bounds are missed, relative and summed; 0 if none is
    probability: float  # of keeping to all of them, were their errors independent
    confidence: float = CONFIDENCE  # probability from which on it counts as feasible

    @property
    def is_feasible(self) -> bool:
        """Whether it keeps to all constraints with the confidence asked for."""
        return self.probability >= self.confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """By how much a configuration misses a bound.

    ``excess`` is a logarithm, more than 0: of the quantity over its bound, of a bound from below
    over the quantity, and of 1 + slowdown over 1 + its bound.
    """

    constraint: Constraint
    excess: float

    @property
    def value(self) -> float:
        """What was measured, in the unit of the bound."""
        bound, name = self.constraint.bound, self.constraint.quantity
        if name == "slowdown":
            return (1.0 + bound) * exp(self.excess) - 1.0
        return bound * exp(-self.excess if name in AT_LEAST else self.excess)


def over_cells(constraints: Sequence[Constraint]) -> bool:
    """Whether a slowdown is over the driver's clock of each cell, which must then be there."""
    return any(c.quantity == "slowdown" and c.against == "cell" for c in constraints)


FREE = Judgement(violation=0.0, probability=1.0)
"""Where nothing is constrained."""


def judge(
    figures: Figures,
    references: Mapping[Against, Figures | None],
    constraints: Sequence[Constraint],
    *,
    confidence: float = CONFIDENCE,
) -> Judgement:
    """Say how likely ``figures`` keep to all ``constraints``.

    ``references`` are what a slowdown is over; of ``None``, which was not measured, nothing is
    known: such a slowdown is as likely kept to as not. Raises MeasurementError if a bounded
    quantity was not measured.
    """
    violation, probability = 0.0, 1.0
    for constraint in constraints:
        excess, u = _excess(constraint, figures, references)
        violation += max(excess, 0.0)
        probability *= probability_below(0.0, excess, u)
    return Judgement(violation=violation, probability=probability, confidence=confidence)


def missed(
    figures: Figures,
    references: Mapping[Against, Figures | None],
    constraints: Sequence[Constraint],
) -> tuple[Miss, ...]:
    """Return which bounds ``figures`` miss, arguments and errors as of :func:`judge`."""
    excesses = [(each, _excess(each, figures, references)[0]) for each in constraints]
    return tuple(Miss(constraint=each, excess=over) for each, over in excesses if over > 0)


def order_of(
    objective: Objective, figures: Figures, judgement: Judgement
) -> tuple[int, float, float]:
    """Return the key by which configurations are sorted, best first.

    Feasible ones come by their cost. Of the others come first those that miss least, and among
    those that miss nothing but may, the likeliest.
    """
    if judgement.is_feasible:
        return (0, cost_of(objective, figures).log, 0.0)
    return (1, judgement.violation, -judgement.probability)


def probability_below(bound: float, value: float, u: float) -> float:
    """Return the probability that a normal quantity is at most ``bound``; exact where u is 0."""
    if u <= 0:
        return 1.0 if value <= bound else 0.0
    return (1 + erf((bound - value) / (u * sqrt(2)))) / 2


def bounded(constraint: Constraint, figures: Figures) -> tuple[float, float]:
    """Return what was measured of a quantity that has an own unit, and its standard uncertainty.

    Raises MeasurementError if it was not measured.
    """
    slow_u = figures.time_u_s / figures.time_s
    values: dict[str, tuple[float | None, float]] = {
        "latency_s": (figures.latency_s, slow_u * (figures.latency_s or 0.0)),
        "ttft_s": (figures.ttft_s, figures.ttft_u_s or 0.0),
        "tpot_s": (figures.tpot_s, figures.tpot_u_s or 0.0),
        "throughput_per_s": (1 / figures.time_s, slow_u / figures.time_s),
        "power_w": (figures.power_w, figures.power_w * log_energy(figures).u),
        "temperature_c": (figures.temperature_c, 0.0),
        "memory_b": (figures.memory_b, 0.0),
    }
    value, u = values[constraint.quantity]
    return _known(value, constraint), u


def _excess(
    constraint: Constraint, figures: Figures, references: Mapping[Against, Figures | None]
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
        return _slowdown(constraint, figures, references.get(constraint.against))
    value, u = bounded(constraint, figures)
    if value == 0:  # of memory: a program that holds none is below any bound
        return -inf, 0.0
    over = log(value / constraint.bound)
    return -over if constraint.quantity == "throughput_per_s" else over, u / value


def _slowdown(
    constraint: Constraint, figures: Figures, reference: Figures | None
) -> tuple[float, float]:
    if reference is None:
        return 0.0, inf
    if figures == reference:
        return -log(1 + constraint.bound), 0.0
    time, usual = log_time(figures), log_time(reference)
    return time.log - usual.log - log(1 + constraint.bound), hypot(time.u, usual.u)


def _known(value: float | None, constraint: Constraint) -> float:
    if value is None:
        raise MeasurementError(
            f"{constraint.quantity} is bounded by {constraint.bound:g} but was not measured; "
            "measure it with every trial, or drop the constraint."
        )
    return value
