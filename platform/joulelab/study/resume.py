"""What an earlier run left of a study: what is done, what is left, and can it be done at all."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.plan import check_on_grid
from joulelab.core.record import Record
from joulelab.core.trial import Trial, name_within
from joulelab.errors import ConfigError
from joulelab.searching.base import Outcome
from joulelab.study.events import outcome_of, spent_j
from joulelab.study.gpu import StudyGpu, by_product, settable_clocks_mhz, simulated_processor
from joulelab.study.schedule import MACHINERY
from joulelab.tracing.precision import check_precision, supports
from joulelab.tracking.durable import read_lines
from joulelab.tracking.store import ResultStore, measurement_from_json
from joulelab.workloads import WORKLOADS

_Name = tuple[str, str | None]
"""Name of a trial among those of its product, and the product; ``None`` for any."""


def check_feasible(
    trials: Sequence[Trial], gpus: Sequence[StudyGpu], *, observe_only: bool
) -> None:
    """Refuse, before anything is started, what no GPU could carry out.

    Raises ConfigError if the trials are none, or of several studies; if a workload or a knob is
    unknown; if simulated GPUs would need a cost that a program does not have, or a product of them
    computes in no format of the trials; if a clock is on the grid of no GPU of a product (names its
    neighbours); or if a point is to be set although setters must not be called.
    """
    studies = {trial.study for trial in trials}
    if len(studies) != 1:
        raise ConfigError(f"trials must be of one study, got {sorted(studies) or 'no trials'}.")
    for trial in {(trial.configuration, trial.device_name): trial for trial in trials}.values():
        check_cost(trial.configuration, gpus)
        point = trial.configuration.point
        if observe_only and point.locks_clocks:
            raise ConfigError(
                f"observe-only calls no setter, but trial {trial.name!r} asks for {point.label}; "
                "measure at the driver's clocks (--mode baseline), or allow control."
            )
        if point.sm_clock_mhz is not None:
            those = [gpu for gpu in gpus if trial.fits(gpu.identity.name)]
            for alike in by_product(those).values():
                check_on_grid(point.sm_clock_mhz, settable_clocks_mhz(alike))
    _check_formats(trials, gpus)


def _check_formats(trials: Sequence[Trial], gpus: Sequence[StudyGpu]) -> None:
    """Refuse trials of which a simulated product computes in the number format of none."""
    for name, (first, *_) in by_product(gpus).items():
        if (processor := simulated_processor(first)) is None:
            continue
        own = [dict(trial.configuration.knobs) for trial in trials if trial.fits(name)]
        formats = {knobs.get("precision") for knobs in own}
        if formats and not any(f is None or supports(str(f), processor) for f in formats):
            check_precision(min(map(str, formats)), processor)


def check_cost(configuration: Configuration, gpus: Sequence[StudyGpu]) -> None:
    """Refuse a program that simulated GPUs could not play.

    Raises ConfigError if it has no cost, and none is found by a trace.
    """
    workload = WORKLOADS.of(configuration)
    if not workload.has_cost and any(gpu.address.backend == "simulated" for gpu in gpus):
        workload.cost()


def rest_of(trials: Sequence[Trial], known: Sequence[Measurement]) -> list[Trial]:
    """Return the trials whose every phase is not settled in what is ``known``, in their order.

    A clock that the power cap holds down is settled without being valid. A trial that was tried
    before goes on counting its attempts from there.
    """
    phases: defaultdict[tuple[_Name, str], set[str]] = defaultdict(set)
    attempts: defaultdict[_Name, int] = defaultdict(int)
    for measurement in known:
        for product in (None, measurement.device.name):
            name = _name_for(measurement.trial, product)
            attempts[name] = max(attempts[name], measurement.attempt + 1)
            if measurement.settled:
                phases[name, measurement.configuration.config_hash].add(measurement.phase)
    left = []
    for trial in trials:
        name = _name_for(trial.name, trial.device_name)
        asked = trial.configuration
        if phases[name, asked.config_hash] != set(WORKLOADS.of(asked).phases):
            left.append(replace(trial, attempt=attempts[name]))
    return left


def _name_for(name: str, device_name: str | None) -> _Name:
    """Return what tells a trial from others, be it planned beside those of other products or not.

    A study may have begun on one product and go on on several, or the other way round.
    """
    return name_within(name, device_name), device_name


def stored_records(store: ResultStore, writer: str, trial: Trial) -> tuple[Record, ...]:
    """Return the records of this attempt of ``trial`` if ``writer`` stored all of them.

    An actor stores before it reports, so one that was killed in between has done its trial.
    Half a trial counts as none: its phases belong together and are measured again together.
    """
    path = store.folder / "measurements" / f"{writer}.jsonl"
    found = {m.phase: m for m in _stored(path, trial)} if path.exists() else {}
    if set(found) != set(WORKLOADS.of(trial.configuration).phases):
        return ()
    return tuple(_with_trace(store, measurement) for measurement in found.values())


def _stored(path: Path, trial: Trial) -> Iterator[Measurement]:
    wanted = f'"trial":{json.dumps(trial.name)}'.encode()
    for _, line in read_lines(path):
        if wanted in line:
            measurement = measurement_from_json(line)
            if (measurement.study, measurement.attempt) == (trial.study, trial.attempt):
                yield measurement


def _with_trace(store: ResultStore, measurement: Measurement) -> Record:
    has_trace = store.trace_path(measurement.measurement_id).exists()
    trace = store.read_trace(measurement.measurement_id) if has_trace else None
    return Record(measurement=measurement, trace=trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a search goes on from; ``energy_j`` includes what ``unfinished`` trials took."""

    # Trials that have ended, in the order in which they were asked for.
    trials: tuple[Trial, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    energies_j: tuple[float, ...] = ()  # what each took, all its attempts together
    unfinished: tuple[Trial, ...] = ()  # trials that must be tried again, with their next attempt
    # Number of the next repeat of each configuration; trials that a kill cut short left nothing, so
    # that lower numbers may be missing.
    repeats: Counter[Configuration] = field(default_factory=Counter)
    # Trials that each GPU has measured since its last sentinel, by UUID.
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
    or not. A trial whose attempts all failed for reasons of the machinery is unfinished. Where an
    attempt has a phase twice, the first one counts: a trial's figures are the sum of its phases.
    """
    attempts: defaultdict[str, defaultdict[int, list[Measurement]]]
    attempts = defaultdict(lambda: defaultdict(list))
    for measurement in known:
        attempt = attempts[measurement.trial][measurement.attempt]
        if all(each.phase != measurement.phase for each in attempt):
            attempt.append(measurement)
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
        whole = {m.phase for m in phases} == set(WORKLOADS.of(trial.configuration).phases)
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
