"""What earlier runs of a search left in its results folder."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
        repeats: Number of the next repeat of each configuration; trials that a kill cut short
            left nothing, so that lower numbers may be missing.
        since_sentinel: Trials that each GPU has measured since its last sentinel, by UUID.
        next_number: Number of the next trial.
        energy_j: Energy spent, that of unfinished trials included.
    """

    trials: tuple[Trial, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    energies_j: tuple[float, ...] = ()
    unfinished: tuple[Trial, ...] = ()
    repeats: Counter[Configuration] = field(default_factory=Counter)
    since_sentinel: Mapping[str, int] = field(default_factory=dict)
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
    last = [attempts[name][max(attempts[name])][0] for name in sorted(attempts, key=_number)]
    return History(
        trials=tuple(trials),
        outcomes=tuple(outcome for _, outcome, _ in ended),
        energies_j=tuple(taken_j for _, _, taken_j in ended),
        unfinished=tuple(unfinished),
        repeats=_next_repeats((*trials, *unfinished)),
        since_sentinel=_since_sentinel(last),
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


def _next_repeats(trials: Iterable[Trial]) -> Counter[Configuration]:
    following: Counter[Configuration] = Counter()
    for trial in trials:
        following[trial.configuration] = max(following[trial.configuration], trial.repeat + 1)
    return following


def _since_sentinel(last: Sequence[Measurement]) -> dict[str, int]:
    """Count from the last measurements of all trials, in the order of the trials."""
    since: dict[str, int] = {}
    for measurement in last:
        uuid = measurement.device.uuid
        if measurement.sentinel:
            since[uuid] = 0
        elif uuid in since:
            since[uuid] += 1
    return since


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
