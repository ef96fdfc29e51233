"""What is left to do of a study, and whether it can be done at all."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from joulelab.core.measurement import Measurement
from joulelab.core.plan import check_on_grid
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
        if observe_only and not point.is_default:
            raise ConfigError(
                f"observe-only calls no setter, but trial {trial.name!r} asks for {point.label}; "
                "measure at the driver's clocks (--mode baseline), or allow control."
            )
        if point.sm_clock_mhz is not None:
            for site in sites:
                check_on_grid(point.sm_clock_mhz, site.capabilities.sm_clocks_mhz)


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
