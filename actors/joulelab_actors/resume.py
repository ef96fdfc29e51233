"""What is left to do of a study, and whether it can be done at all."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from joulelab.core.measurement import Measurement
from joulelab.core.plan import again, check_on_grid
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError
from joulelab_actors.placement import Site
from joulelab_actors.recall import workload_of


def check_feasible(trials: Sequence[Trial], sites: Sequence[Site], *, observe_only: bool) -> None:
    """Refuse, before anything is started, what no actor could carry out.

    Raises:
        ConfigError: If the trials are none, or of several studies; if a workload or a knob is
            unknown; if a clock is not on a GPU's grid (names its neighbours); or if a point is
            to be set although setters must not be called.
    """
    studies = {trial.study for trial in trials}
    if len(studies) != 1:
        raise ConfigError(f"trials must be of one study, got {sorted(studies) or 'no trials'}.")
    for trial in {trial.configuration: trial for trial in trials}.values():
        workload_of(trial)
        point = trial.configuration.point
        if observe_only and point.locks_clocks:
            raise ConfigError(
                f"observe-only calls no setter, but trial {trial.name!r} asks for {point.label}; "
                "measure at the driver's clocks (--mode baseline), or allow control."
            )
        if point.sm_clock_mhz is not None:
            for site in sites:
                check_on_grid(point.sm_clock_mhz, site.capabilities.sm_clocks_mhz)


def ties(
    trials: Sequence[Trial],
    rest: Sequence[Trial],
    known: Sequence[Measurement],
    uuids: Sequence[str],
) -> tuple[list[Trial], frozenset[str]]:
    """Return sentinels to be measured besides, so that every GPU measures one, and who has none.

    GPUs are compared by what all of them measured, and what only one of them measured has no
    figure. The plan of a study does not know how many GPUs will carry it out, nor whether it
    will go on on others.

    Args:
        trials: All trials of the study; without a sentinel among them none is added.
        rest: Those that are left to do.
        known: What its results folder holds.
        uuids: GPUs that carry it out now.
    """
    planned = [trial for trial in trials if trial.sentinel]
    if not planned or not rest:
        return [], frozenset()
    tied = {m.device.uuid for m in known if m.sentinel and m.settled}
    untied = frozenset(uuids) - tied
    num_missing = min(len(untied), len(rest)) - sum(trial.sentinel for trial in rest)
    measured = [m.repeat for m in known if m.sentinel]
    first = 1 + max([*(trial.repeat for trial in planned), *measured])
    added = [again(planned[0], repeat) for repeat in range(first, first + max(num_missing, 0))]
    return added, untied


def rest_of(trials: Sequence[Trial], known: Sequence[Measurement]) -> list[Trial]:
    """Return the trials whose every phase is not settled yet, in their order.

    A clock that the power cap holds down is settled without being valid. A trial that was tried
    before goes on counting its attempts from there.

    Args:
        trials: All trials of the study.
        known: What its results folder holds.
    """
    phases: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    attempts: defaultdict[str, int] = defaultdict(int)
    for measurement in known:
        attempts[measurement.trial] = max(attempts[measurement.trial], measurement.attempt + 1)
        if measurement.settled:
            key = measurement.trial, measurement.configuration.config_hash
            phases[key].add(measurement.phase)
    return [
        replace(trial, attempt=attempts[trial.name])
        for trial in trials
        if phases[trial.name, trial.configuration.config_hash] != set(workload_of(trial).phases)
    ]
