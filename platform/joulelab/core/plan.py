"""Which trials a sweep makes, and in which order.

Order matters as much as number: a board drifts as it warms, so clocks measured from high to low
confound the clock with the hour. Every repeat is a block that holds each configuration once in
its own random order, and the driver's default is measured again and again between them as a
sentinel for drift (randomised complete blocks; Montgomery, "Design and Analysis of Experiments").
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Literal

from joulelab.core.bounds import MOST_TRIALS, check_range
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError

SweepMode = Literal["baseline", "dvfs", "custom"]
"""Default clocks only; the device's clocks, all or every k-th; clocks that were given."""


def sweep_points(
    grid_mhz: Sequence[int],
    *,
    mode: SweepMode,
    every: int = 1,
    clocks_mhz: Sequence[int] = (),
) -> tuple[OperatingPoint, ...]:
    """Return the operating points of a sweep, the driver's default first.

    Args:
        grid_mhz: SM clocks that the device can be set to.
        mode: Which of them to take.
        every: In mode ``"dvfs"``, take every ``every``-th clock from the highest down; the
            lowest is always among them.
        clocks_mhz: In mode ``"custom"``, the clocks to take.

    Raises:
        ConfigError: If ``every`` is below 1, ``clocks_mhz`` does not fit the mode, or a clock
            is not on the grid (names its neighbours).
    """
    check_points(mode, every, clocks_mhz)
    clocks = _chosen(sorted(set(grid_mhz), reverse=True), mode, every, clocks_mhz)
    return (OperatingPoint(), *(OperatingPoint(sm_clock_mhz=clock) for clock in clocks))


def plan_sweep(
    study: str,
    configurations: Sequence[Configuration],
    *,
    repeats: int,
    sentinel: Configuration | None = None,
    sentinel_every: int = 10,
    seed: int = 0,
    together: Callable[[Configuration], Hashable] | None = None,
) -> tuple[Trial, ...]:
    """Return the trials of a sweep in randomised blocks with sentinels between them.

    Where changing from one configuration to the next takes long, those of one kind can be measured
    one after the other. Each block changes anew, so that repeats show what a change does (split
    plots; Montgomery, "Design and Analysis of Experiments", 14.4).

    Args:
        study: Name of the study.
        configurations: Each is measured once in every block.
        repeats: Number of blocks, at least 1.
        sentinel: What is measured again every ``sentinel_every`` trials; ``None`` for nothing.
        sentinel_every: Trials between two sentinels, at least 1.
        seed: Seed of the order; the same seed gives the same plan.
        together: Names the kind of a configuration; kinds follow each other at random, and
            configurations within a kind. By default all are of one kind.

    Raises:
        ConfigError: If ``repeats`` or ``sentinel_every`` is below 1, or that makes more than
            ``MOST_TRIALS``.
    """
    check_plan(repeats, sentinel_every, num_configurations=len(configurations))
    random = Random(seed)  # noqa: S311 - an order of trials, not a secret
    trials: list[Trial] = []
    for repeat in range(repeats):
        block = _shuffled(configurations, together, random)
        trials += [_trial(study, configuration, repeat) for configuration in block]
    return _with_sentinels(trials, sentinel, sentinel_every)


def on_products(plans: Mapping[str, Sequence[Trial]]) -> list[Trial]:
    """Return the plans of several products as one, each trial for the GPUs of its product.

    ``plans`` has a plan for each product, by the name that the driver gives it. Where there are
    several, names of trials begin with the product.
    """
    trials = [replace(trial, device_name=name) for name, plan in plans.items() for trial in plan]
    return [trial.beside_others() for trial in trials] if len(plans) > 1 else trials


def check_plan(repeats: int, sentinel_every: int = 1, *, num_configurations: int = 1) -> None:
    """Refuse a plan that no study could carry out, before its trials are made.

    Raises ConfigError if ``repeats`` or ``sentinel_every`` is below 1, or there would be more than
    ``MOST_TRIALS``.
    """
    check_range("repeats", repeats, 1, MOST_TRIALS // max(num_configurations, 1))
    check_range("sentinel_every", sentinel_every, 1, MOST_TRIALS)


def check_points(
    mode: SweepMode, every: int, clocks_mhz: Sequence[int], *, observe_only: bool = False
) -> None:
    """Refuse a choice of clocks that no device could offer, before there is a device.

    Raises ConfigError if ``every`` is below 1, ``clocks_mhz`` does not fit the mode, or clocks are
    to be set although setters must not be called.
    """
    if every < 1:
        raise ConfigError(f"every must be at least 1, got {every}.")
    if (mode == "custom") != bool(clocks_mhz):
        raise ConfigError(
            f"clocks_mhz goes with mode 'custom' and no other, got mode {mode!r} with "
            f"{list(clocks_mhz) or 'no clocks'}."
        )
    if observe_only and mode != "baseline":
        raise ConfigError(
            f"observe-only calls no setter, but mode {mode!r} sets clocks; measure at the driver's "
            "clocks (--mode baseline), or allow control."
        )


def check_on_grid(clock_mhz: int, grid_mhz: Sequence[int], *, knob: str = "sm_clock_mhz") -> None:
    """Refuse a clock that is not on the grid.

    Raises ConfigError, which names the neighbours of ``clock_mhz`` on the grid.
    """
    if clock_mhz in grid_mhz:
        return
    below = [clock for clock in grid_mhz if clock < clock_mhz]
    above = [clock for clock in grid_mhz if clock > clock_mhz]
    near = [str(c) for c in ([max(below)] if below else []) + ([min(above)] if above else [])]
    raise ConfigError(
        f"{knob} must be one of the device's {len(grid_mhz)} clocks, got {clock_mhz}; "
        f"the nearest: {' and '.join(near) or 'none, its clocks cannot be set'}."
    )


def _chosen(
    grid_mhz: list[int], mode: SweepMode, every: int, clocks_mhz: Sequence[int]
) -> list[int]:
    if mode == "baseline":
        return []
    if mode == "custom":
        for clock_mhz in clocks_mhz:
            check_on_grid(clock_mhz, grid_mhz)
        return sorted(set(clocks_mhz), reverse=True)
    return sorted({*grid_mhz[::every], *grid_mhz[-1:]}, reverse=True)


def _shuffled(
    configurations: Sequence[Configuration],
    together: Callable[[Configuration], Hashable] | None,
    random: Random,
) -> list[Configuration]:
    block = list(configurations)
    random.shuffle(block)
    if together is None:
        return block
    kinds = list(dict.fromkeys(map(together, configurations)))
    random.shuffle(kinds)
    return sorted(block, key=lambda configuration: kinds.index(together(configuration)))


def again(sentinel: Trial, repeat: int) -> Trial:
    """Return a further repeat of a sentinel of a plan."""
    name = sentinel.name.removesuffix(f"-r{sentinel.repeat}")
    return replace(sentinel, name=f"{name}-r{repeat}", repeat=repeat)


def _trial(study: str, configuration: Configuration, repeat: int) -> Trial:
    name = f"{configuration.point.label}-{configuration.config_hash[:6]}-r{repeat}"
    return Trial(study=study, name=name, configuration=configuration, repeat=repeat)


def _with_sentinels(
    trials: list[Trial], sentinel: Configuration | None, every: int
) -> tuple[Trial, ...]:
    if sentinel is None or not trials:
        return tuple(trials)
    planned: list[Trial] = []
    for start in range(0, len(trials), every):
        trial = _trial(trials[0].study, sentinel, start // every)
        planned.append(replace(trial, name=f"sentinel-{trial.name}", sentinel=True))
        planned += trials[start : start + every]
    return tuple(planned)
