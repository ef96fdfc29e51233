"""The contract of a search algorithm: asked for a candidate, given what came of it and its cost.

A cost is ``a ln E + b ln T - c ln Q``, so that units and scales drop out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import hypot, inf, log, sqrt

from joulelab.core.configuration import Configuration
from joulelab.errors import MeasurementError
from joulelab.objectives import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a valid trial of a candidate showed, per unit of work, with standard uncertainties."""

    energy_j: float  # joules per unit, phases weighed as in a request
    energy_u_j: float  # its standard uncertainty
    time_s: float  # seconds per unit, likewise; with a batch, of all its sequences together
    time_u_s: float  # its standard uncertainty
    power_w: float
    board: str  # UUID of the GPU
    temperature_c: float | None = None  # hottest reading; None where there is none
    # Share of the reference's quality that is kept; None if not evaluated.
    retention: float | None = None
    retention_u: float | None = None  # its standard uncertainty; None if there is none
    memory_b: float | None = None  # most device memory that was in use; None if that was not read
    # Time of a request from its begin to its end; None if that is not known.
    latency_s: float | None = None
    # Time to the first token of a request; None where none is generated.
    ttft_s: float | None = None
    ttft_u_s: float | None = None  # its standard uncertainty
    tpot_s: float | None = None  # time per output token of a sequence after the first
    tpot_u_s: float | None = None  # its standard uncertainty
    # Name of the observation that was replayed, one however often that was done; None where the
    # program really ran.
    recording: str | None = None

    @property
    def retention_relative_u(self) -> float:
        """Relative standard uncertainty of :attr:`retention`; 0 where it has none."""
        return (self.retention_u or 0.0) / (self.retention or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one trial."""

    candidate: Configuration
    figures: Figures | None = None  # what was measured; None if nothing valid was
    reason: str | None = None  # why there are no figures; None if there are
    # Whether the power cap held the clock down, so that higher clocks give the same; where no clock
    # was asked for, or a limit was, there are figures nevertheless.
    capped: bool = False
    # What it took at the clock that the power cap held, where that makes it invalid: it tells of
    # the cap and of the program, and is no figure of the configuration.
    held: Figures | None = None
    # SM clock at which the cap held it; None if it did not, or that was not read.
    held_mhz: float | None = None
    # Whether the policy of a clock guard forbids it, which tells nothing of others.
    barred: bool = False
    spent_j: float | None = None  # energy that it took, all in all; None if that is not known
    spent_s: float | None = None  # time that it took of a GPU, likewise

    @property
    def seen(self) -> Figures | None:
        """What the trial tells of energy and time, be it at the clock that was asked for or not."""
        return self.held if self.figures is None else self.figures


class Strategy(ABC):
    """Chooses what to measure next, from what was measured so far.

    The same candidate may be asked for again: a repeat. Several may be out at once; they are
    given in any order. A strategy is deterministic in its seed and in what it is given, so that a
    search that goes on from stored outcomes is given those first.
    """

    @abstractmethod
    def ask(self) -> Configuration | None:
        """Return what to measure next; ``None`` if that depends on what is still out, or if done.

        Never blocks, and takes little time: a GPU may be waiting.
        """

    @abstractmethod
    def tell(self, outcome: Outcome) -> None:
        """Take in what came of a trial, whether it was asked for here or in an earlier life."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether nothing more need be measured, whatever is still out."""


MakeStrategy = Callable[..., Strategy]
"""Makes a strategy of a :class:`~joulelab.searching.evidence.Problem` and a ``seed``."""


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
    uncertainty counts as exact, a lost one (retention 0) as an infinite cost. Raises
    MeasurementError if energy or time is not positive, or quality counts and was not evaluated.
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
        if figures.retention is None:
            raise MeasurementError(
                f"{objective.label} needs the share of quality that is kept; evaluate the quality "
                "with every trial, or choose an objective without it."
            )
        if figures.retention <= 0:
            return Cost(log=inf, u=0.0)
        value -= c * log(figures.retention)
        variance += (c * figures.retention_relative_u) ** 2
    return Cost(log=value, u=sqrt(variance))
