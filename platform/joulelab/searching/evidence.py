"""What a search has seen so far: outcomes by configuration, repeats taken together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from statistics import fmean, median, stdev
from typing import Any

from joulelab.core.configuration import Configuration
from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import BoardFacts
from joulelab.hardware.spec import GpuSpec
from joulelab.objectives import Objective
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import (
    CONFIDENCE,
    FREE,
    Against,
    Constraint,
    Judgement,
    Miss,
    judge,
    missed,
    order_of,
)
from joulelab.searching.space import Cell, SearchSpace, at_default


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The share of the reference's quality that the outputs of a cell keep.

    ``retention`` is 1 for as good, 0 if the quality is lost; ``u`` its standard uncertainty,
    ``None`` if there is none. Cells of the same ``outputs`` share their error as well.
    """

    retention: float
    outputs: str
    u: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.retention < inf:
            raise ConfigError(f"retention must be at least 0, got {self.retention:g}.")
        if self.u is not None and not 0 <= self.u < inf:
            raise ConfigError(f"u must be None or at least 0, got {self.u:g}.")

    @property
    def relative_u(self) -> float:
        """Relative standard uncertainty of :attr:`retention`; 0 where it has none."""
        return (self.u or 0.0) / (self.retention or 1.0)


DEFAULT_HORIZON_S = 86400.0
"""A day: points of up to 40 s are then worth any gain that the model can tell."""
Qualities = Mapping[Cell, Kept]
"""What each cell keeps: quality depends on the workload's knobs, and on no clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is searched for, and where."""

    space: SearchSpace
    objective: Objective
    constraints: tuple[Constraint, ...] = ()
    # Probability of keeping to the constraints from which on a choice counts as feasible.
    confidence: float = CONFIDENCE
    gpu: GpuSpec | None = None  # what the catalogue says of the GPUs; None where it lacks them
    top_clock_mhz: int | None = None  # the highest that can be set; None where nobody says
    calibration: BoardFacts | None = None  # what was measured of one, which gpu then has in it
    horizon_s: float = DEFAULT_HORIZON_S  # for how long what is found will run, on one GPU
    # What the outputs of each cell keep, known beforehand; empty if it is not.
    qualities: Qualities = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.objective.energy_exponent != 1:
            raise ConfigError(
                "A search needs an objective that energy is a factor of, as it is of edp, got "
                f"{self.objective.name}; time alone is least at the highest clock."
            )

    @property
    def usual_mhz(self) -> int | None:
        """The driver's own clock under load, as far as anything tells, asked for or not."""
        return self.top_clock_mhz if self.gpu is None else self.gpu.default_clock_mhz

    @property
    def knows_board(self) -> bool:
        """Whether power over clocks was measured of a board."""
        return self.calibration is not None and self.calibration.has_curve


class Evidence:
    """Outcomes of the configurations of one problem.

    ``observations`` leave out recordings that had been played before, which tell nothing.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.outcomes: list[Outcome] = []
        self.observations: list[Outcome] = []
        self._recordings: set[tuple[Configuration, str, str]] = set()
        self._least_recorded = inf
        self._figures: dict[Configuration, list[Figures]] = {}
        self._means: dict[Configuration, Figures] = {}
        self._failures: dict[Configuration, int] = {}

    def add(self, outcome: Outcome) -> bool:
        """Take in an outcome; return whether it shows figures that were not known.

        Raises ConfigError if its configuration is not of the space.
        """
        self.problem.space.index(outcome.candidate)
        self.outcomes.append(outcome)
        if is_new := self._is_observation(outcome):
            self.observations.append(outcome)
        if outcome.figures is None:
            self._failures[outcome.candidate] = self.num_failures(outcome.candidate) + 1
            return False
        if not is_new:
            num = len(self.repeats(outcome.candidate))
            self._least_recorded = min(self._least_recorded, num)
            return False
        self._figures.setdefault(outcome.candidate, []).append(outcome.figures)
        self._means[outcome.candidate] = combined(self._figures[outcome.candidate])
        return True

    def _is_observation(self, outcome: Outcome) -> bool:
        """Whether an outcome is no recording that was played before."""
        if (seen := outcome.seen) is None or seen.recording is None:
            return True
        played = (outcome.candidate, seen.board, seen.recording)
        is_new = played not in self._recordings
        self._recordings.add(played)
        return is_new

    @property
    def is_replayed(self) -> bool:
        """Whether all figures are recordings."""
        return all(f.recording for repeats in self._figures.values() for f in repeats)

    def is_played_out(self, configuration: Configuration) -> bool:
        """Whether no further recording is to be expected: others had no more than it has shown."""
        return len(self.repeats(configuration)) >= self._least_recorded

    @property
    def measured(self) -> tuple[Configuration, ...]:
        """Configurations with figures, in the order in which they were first measured."""
        return tuple(self._means)

    @property
    def least_gain(self) -> float:
        """Relative improvement that is worth what a point costs; 0 if that is not known.

        Over the horizon it spares as much energy and as much time as points have taken so far, in
        the median, as the first also had its idle window.
        """
        known = [
            (each.spent_j, each.spent_s)
            for each in self.outcomes
            if each.spent_j is not None and each.spent_s is not None
        ]
        if not known or not self._means:
            return 0.0
        spent_j = median(energy_j for energy_j, _ in known)
        spent_s = median(time_s for _, time_s in known)
        best = self._means[self.ranked()[0]]
        return max(spent_j * best.time_s / best.energy_j, spent_s) / self.problem.horizon_s

    @property
    def baseline(self) -> Figures | None:
        """Figures of the baseline; ``None`` before it was measured."""
        return self._means.get(self.problem.space.baseline)

    def name(self, configuration: Configuration) -> str:
        """Return a configuration's name in fits: its place in the space."""
        return str(self.problem.space.index(configuration))

    def mean(self, configuration: Configuration) -> Figures | None:
        """Return the repeats of a configuration taken together; ``None`` without any."""
        return self._means.get(configuration)

    def repeats(self, configuration: Configuration) -> Sequence[Figures]:
        """Return what each valid trial of a configuration showed."""
        return self._figures.get(configuration, [])

    def num_failures(self, configuration: Configuration) -> int:
        """Return how many trials of a configuration gave no figures."""
        return self._failures.get(configuration, 0)

    def judgement(
        self, configuration: Configuration, constraints: Sequence[Constraint] | None = None
    ) -> Judgement:
        """Say how likely a measured configuration keeps to ``constraints``, by default all.

        Raises MeasurementError if a bounded quantity was not measured.
        """
        constraints = self.problem.constraints if constraints is None else constraints
        if not constraints:
            return FREE
        return judge(
            self._means[configuration],
            self._references(configuration),
            constraints,
            confidence=self.problem.confidence,
        )

    def missed(self, configuration: Configuration) -> tuple[Miss, ...]:
        """Return which bounds a measured configuration misses, and by how much.

        Raises MeasurementError if a bounded quantity was not measured.
        """
        references, constraints = self._references(configuration), self.problem.constraints
        return missed(self._means[configuration], references, constraints)

    def _references(self, configuration: Configuration) -> dict[Against, Figures | None]:
        return {"cell": self.reference(configuration), "baseline": self.baseline}

    def reference(self, configuration: Configuration) -> Figures | None:
        """Return figures of the same knobs at the driver's clock; ``None`` if not measured."""
        return self._means.get(at_default(configuration))

    def lacks_reference(self, configuration: Configuration) -> bool:
        """Whether a slowdown of a configuration is bounded, and what it is over not measured."""
        against = {c.against for c in self.problem.constraints if c.quantity == "slowdown"}
        missing = {"cell": self.reference(configuration) is None, "baseline": self.baseline is None}
        return any(missing[each] for each in against)

    def ranked(self) -> list[Configuration]:
        """Return the measured configurations, best first.

        Raises MeasurementError if the cost or a bounded quantity was not measured.
        """
        objective = self.problem.objective
        return sorted(
            self._means,
            key=lambda each: order_of(objective, self._means[each], self.judgement(each)),
        )


def combined(repeats: Sequence[Figures]) -> Figures:
    """Return geometric means of energy and time, with uncertainties, and the worst of limits.

    The uncertainty of a mean is what the repeats state or how they scatter, whichever is more.
    """
    first = repeats[0]
    if len(repeats) == 1:
        return first
    energy_j, energy_u_j = _mean([(each.energy_j, each.energy_u_j) for each in repeats])
    time_s, time_u_s = _mean([(each.time_s, each.time_u_s) for each in repeats])
    qualities = [(r.retention, r.retention_u) for r in repeats if r.retention is not None]
    retention, retention_u = qualities[-1] if qualities else (None, None)
    return replace(
        first,
        energy_j=energy_j,
        energy_u_j=energy_u_j,
        time_s=time_s,
        time_u_s=time_u_s,
        power_w=fmean(each.power_w for each in repeats),
        temperature_c=_highest([each.temperature_c for each in repeats]),
        memory_b=_highest([each.memory_b for each in repeats]),
        retention=retention,
        retention_u=retention_u,
        latency_s=None if first.latency_s is None else first.latency_s * time_s / first.time_s,
        **_combined_tokens(repeats),
    )


def _combined_tokens(repeats: Sequence[Figures]) -> dict[str, Any]:
    found = {}
    for name in ("ttft", "tpot"):
        known = [(getattr(r, f"{name}_s"), getattr(r, f"{name}_u_s")) for r in repeats]
        if None not in (value for value, _ in known):
            found[f"{name}_s"], found[f"{name}_u_s"] = _mean(known)
    return found


def _mean(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    logs = [log(value) for value, _ in values]
    stated = sqrt(sum((u / value) ** 2 for value, u in values)) / len(values)
    mean = exp(fmean(logs))
    return mean, mean * max(stated, stdev(logs) / sqrt(len(logs)))


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
