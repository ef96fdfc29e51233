"""What earlier runs of a search left in its results folder."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.casualty import MACHINERY
from joulelab_actors.recall import workload_of
from joulelab_actors.search.outcomes import outcome_of, spent_j


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a search goes on from.

    Attributes:
        trials: Trials that have ended, in the order in which they were asked for.
        outcomes: What came of each.
        energies_j: What each took, all its attempts together.
        unfinished: Trials that must be tried again, with their next attempt.
        repeats: Trials asked for so far, by configuration.
        next_number: Number of the next trial.
        energy_j: Energy spent, that of unfinished trials included.
    """

    trials: tuple[Trial, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    energies_j: tuple[float, ...] = ()
    unfinished: tuple[Trial, ...] = ()
    repeats: Counter[Configuration] = field(default_factory=Counter)
    next_number: int = 0
    energy_j: float = 0.0


def trial_name(number: int, configuration: Configuration, repeat: int) -> str:
    """Return the name of a search's trial, which begins with its number."""
    point, digits = configuration.point.label, configuration.config_hash[:6]
    return f"{number:05d}-{point}-{digits}-r{repeat}"


def history_of(known: Sequence[Measurement]) -> History:
    """Return what ``known`` measurements of a search add up to.

    A trial has ended if an attempt of it is whole and speaks of the configuration, be it valid
    or not. A trial whose attempts all failed for reasons of the machinery is unfinished.
    """
    attempts: defaultdict[str, defaultdict[int, list[Measurement]]]
    attempts = defaultdict(lambda: defaultdict(list))
    for measurement in known:
        attempts[measurement.trial][measurement.attempt].append(measurement)
    ended: list[tuple[Trial, Outcome, float]] = []
    unfinished: list[Trial] = []
    for name in sorted(attempts, key=_number):
        trial, outcome = _settle(attempts[name])
        if outcome is None:
            unfinished.append(trial)
        else:
            taken_j = sum(spent_j(m) for phases in attempts[name].values() for m in phases)
            ended.append((trial, outcome, taken_j))
    trials = [trial for trial, _, _ in ended]
    return History(
        trials=tuple(trials),
        outcomes=tuple(outcome for _, outcome, _ in ended),
        energies_j=tuple(taken_j for _, _, taken_j in ended),
        unfinished=tuple(unfinished),
        repeats=Counter(trial.configuration for trial in (*trials, *unfinished)),
        next_number=max(map(_number, attempts), default=-1) + 1,
        energy_j=sum(map(spent_j, known)),
    )


def _settle(attempts: dict[int, list[Measurement]]) -> tuple[Trial, Outcome | None]:
    """Return a trial with the outcome of its last telling attempt, else with its next attempt."""
    last = max(attempts)
    for attempt in sorted(attempts, reverse=True):
        phases = attempts[attempt]
        reasons = {finding.reason for m in phases for finding in m.findings}
        trial = _trial_of(phases[0], attempt)
        whole = {m.phase for m in phases} == set(workload_of(trial).phases)
        if whole and not reasons & MACHINERY:
            return trial, outcome_of(phases)
    return _trial_of(attempts[last][0], last + 1), None


def _trial_of(measurement: Measurement, attempt: int) -> Trial:
    return Trial(
        study=measurement.study,
        name=measurement.trial,
        configuration=measurement.configuration,
        repeat=measurement.repeat,
        sentinel=measurement.sentinel,
        attempt=attempt,
    )


def _number(name: str) -> int:
    return int(name.partition("-")[0])
