"""What a search found: the choice, its equals, what it saves, the trade-offs, and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from joulelab.core.additive import Interval
from joulelab.core.configuration import Configuration
from joulelab.errors import ConfigError, MeasurementError
from joulelab.searching.base import Figures
from joulelab.searching.constraints import Miss
from joulelab.searching.evidence import Evidence
from joulelab.searching.standing import LEVEL, Compared, Standing, compared, standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A configuration, with its figures on the average board, repeats taken together."""

    configuration: Configuration
    figures: Figures


def pareto_front(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return what no other of ``choices`` beats in energy, time and quality, the fastest first.

    Quality counts if all were evaluated, and where its difference is significant at :data:`LEVEL`:
    what costs more in energy and in time is on the front only if it surely keeps more quality than
    what costs less.
    """
    front: list[Choice] = []
    has_quality = _has_quality(choices)
    for choice in sorted(
        choices, key=lambda c: (c.figures.energy_j, c.figures.time_s, -_retention(c.figures))
    ):
        if not any(_beats(other, choice, has_quality) for other in front):
            front.append(choice)
    return tuple(sorted(front, key=lambda choice: choice.figures.time_s))


def knee_of(front: Sequence[Choice]) -> Choice:
    """Return the trade-off nearest to the ideal point that has the best of each quantity.

    Distances are between logarithms, each over its range on the front; that of quality counts if
    the difference of its ends is significant.
    """
    figures = [choice.figures for choice in front]
    columns = [[f.energy_j for f in figures], [f.time_s for f in figures]]
    if _has_quality(front):
        least, most = (ends(figures, key=_retention) for ends in (min, max))
        if _retention(most) - _retention(least) > _tellable(most, least):
            columns.append([1.0 / _retention(f) for f in figures])
    costs = np.log(np.array(columns, dtype=np.float64).T)
    low, high = costs.min(axis=0), costs.max(axis=0)
    scaled = (costs - low) / np.where(high > low, high - low, 1.0)
    return front[int(np.argmin(np.sum(scaled**2, axis=1)))]


def _has_quality(choices: Sequence[Choice]) -> bool:
    return all(choice.figures.retention for choice in choices)


def _retention(figures: Figures) -> float:
    return figures.retention or 0.0


def _beats(cheaper: Choice, other: Choice, has_quality: bool) -> bool:
    """Say whether ``cheaper``, which takes no more energy, takes no more time and loses nothing."""
    first, second = cheaper.figures, other.figures
    if first.time_s > second.time_s:
        return False
    lost = _retention(second) - _retention(first)
    return not has_quality or lost <= _tellable(first, second)


def _tellable(first: Figures, second: Figures) -> float:
    """Return the difference of two retentions beyond which it is significant."""
    from scipy.stats import norm  # type: ignore[import-untyped]  # printing does without

    u = hypot(first.retention_u or 0.0, second.retention_u or 0.0)
    return float(norm.ppf((1 + LEVEL) / 2)) * u


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a search."""

    standing: Standing  # the best, and what may be as good
    best: Choice  # the best and its figures
    # The fastest of standing.members that keeps to the constraints. Where the optimum is flat, the
    # best goes with the noise, and this does not.
    fastest: Choice
    energy_ratio: Interval  # its energy over the baseline's; 0.73 saves 27 %
    time_ratio: Interval  # its time over the baseline's
    cost_ratio: Interval  # its cost over the baseline's
    # What no other measured configuration that keeps to the constraints beats in energy, time and
    # quality together, by time.
    front: tuple[Choice, ...]
    knee: Choice  # the one of front nearest to the best of each quantity
    spent_j: float  # energy spent searching
    # Units of work after which the search pays for itself, as an interval; None if it is not
    # certain that energy is saved.
    pays_after: Interval | None
    # Configurations that were tried and never measured: were one of them the best, the answer would
    # be another one.
    failed: tuple[Configuration, ...]
    # Configurations that were power-capped, so that they are the same as a lower clock: none of
    # them is missed.
    capped: tuple[Configuration, ...]
    # All that was measured against the baseline, the first measured first.
    compared: Mapping[Configuration, Compared]
    # Configurations that were never measured and may cost as little as the best, as far as the law
    # of time and power tells from what was measured. With standing.members they hold the truly best
    # with a probability of LEVEL.
    unmeasured: tuple[Configuration, ...]
    # Energy that measuring each of them once would take, by the mean trial so far.
    unmeasured_j: float
    # Those of standing.members that are not sure to keep to the constraints.
    doubtful: tuple[Configuration, ...] = ()
    # Bounds that the best misses, because nothing that was measured keeps to them.
    missed: tuple[Miss, ...] = ()

    @property
    def alike(self) -> tuple[Configuration, ...]:
        """The best, and those that are statistically indistinguishable from it."""
        return tuple(each for each in self.standing.members if each not in self.doubtful)


def answer(evidence: Evidence, *, spent_j: float) -> Answer:
    """Return what the evidence comes to; ``spent_j`` is of all trials, also of those that failed.

    Raises ConfigError if ``spent_j`` is negative; MeasurementError if the baseline was not
    measured, or no cost is finite.
    """
    if spent_j < 0:
        raise ConfigError(f"spent_j must not be negative, got {spent_j:g}.")
    now = standing(evidence)
    if now is None or evidence.baseline is None:
        raise MeasurementError(_why_no_baseline(evidence))
    found = compared(evidence)
    best = found[now.best]
    if best.cost_ratio is None:
        raise MeasurementError(
            "The best has no finite cost, since nothing of the quality is kept; widen the axes."
        )
    front = measured_front(evidence, found, now)
    kept = [each for each in now.members if each in found and evidence.judgement(each).is_feasible]
    fastest = min(kept or [now.best], key=lambda each: found[each].figures.time_s)
    baseline_j = found[evidence.problem.space.baseline].figures.energy_j
    failed, capped = _tried_in_vain(evidence)
    unmeasured = _may_be_as_good(evidence)
    return Answer(
        standing=now,
        best=Choice(configuration=now.best, figures=best.figures),
        fastest=Choice(configuration=fastest, figures=found[fastest].figures),
        energy_ratio=best.energy_ratio,
        time_ratio=best.time_ratio,
        cost_ratio=best.cost_ratio,
        front=front,
        knee=knee_of(front),
        spent_j=spent_j,
        pays_after=_pays_after(spent_j, baseline_j, best.energy_ratio),
        failed=failed,
        capped=capped,
        compared=found,
        unmeasured=unmeasured,
        unmeasured_j=len(unmeasured) * spent_j / len(evidence.outcomes),
        doubtful=tuple(each for each in now.members if each not in kept) if kept else (),
        missed=() if now.is_feasible else evidence.missed(now.best),
    )


def _may_be_as_good(evidence: Evidence) -> tuple[Configuration, ...]:
    """Return what was never tried and may be the best, the likeliest first."""
    from joulelab.core.process import one_thread  # the model needs SciPy, as no sweep does
    from joulelab.searching.model.candidates import Caps, expected_equals
    from joulelab.searching.model.forecast import Forecaster

    problem, forecaster = evidence.problem, Forecaster(evidence)
    with one_thread():
        forecast = forecaster.forecast()
        near = expected_equals(forecast, problem.space, confidence=problem.confidence)
    # Clocks that the cap will not let be locked cannot be measured, nor chosen.
    held = Caps(evidence, forecaster.cell, forecaster.ratio).identical() & forecaster.is_locked
    left_out = {outcome.candidate for outcome in evidence.outcomes}
    left_out |= {problem.space[int(place)] for place in np.flatnonzero(held)}
    return tuple(each for each in near if each not in left_out)


def _why_no_baseline(evidence: Evidence) -> str:
    """Say why there is nothing to compare with; the last failure is the one to mend."""
    baseline = evidence.problem.space.baseline
    tried = [each.reason for each in evidence.outcomes if each.candidate == baseline]
    needs = "An answer needs the baseline, with which everything is compared"
    return f"{needs}; it failed: {tried[-1]}" if tried and tried[-1] else f"{needs}; measure it."


def measured_front(
    evidence: Evidence, found: Mapping[Configuration, Compared], now: Standing
) -> tuple[Choice, ...]:
    """Return the front of what keeps to the constraints and its quality, the fastest first.

    The best must be among what was ``found``.
    """
    kept = [
        each
        for each, known in found.items()
        if evidence.judgement(each).is_feasible and known.figures.retention != 0
    ]
    return pareto_front(
        [Choice(configuration=each, figures=found[each].figures) for each in kept or [now.best]]
    )


def _pays_after(spent_j: float, baseline_j: float, energy: Interval) -> Interval | None:
    if energy.high >= 1:
        return None
    value, low, high = (
        spent_j / (baseline_j * (1 - ratio)) for ratio in (energy.value, energy.low, energy.high)
    )
    return Interval(value=value, low=low, high=high)


def _tried_in_vain(
    evidence: Evidence,
) -> tuple[tuple[Configuration, ...], tuple[Configuration, ...]]:
    """Return what has no figures: because it failed, and because the power cap held it down."""
    tried = dict.fromkeys(outcome.candidate for outcome in evidence.outcomes)
    held = {outcome.candidate for outcome in evidence.outcomes if outcome.capped}
    missed = [each for each in tried if evidence.mean(each) is None]
    return (
        tuple(each for each in missed if each not in held),
        tuple(each for each in missed if each in held),
    )
