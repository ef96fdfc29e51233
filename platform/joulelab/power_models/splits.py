"""Splits: what is held out as a whole, never random rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.runs import Flags, Names, Runs
from joulelab.registry import unknown_name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """One way to divide a table.

    Attributes:
        name: What is held out.
        trained: Which rows a model is trained on; shape ``(n,)``.
        tested: Which rows it is asked about; shape ``(n,)``.
    """

    name: str
    trained: Flags
    tested: Flags


def leave_one_application_out(runs: Runs) -> Iterator[Split]:
    """Hold out every application in turn, on all GPUs."""
    _check_several(runs.application, "application")
    for name in dict.fromkeys(runs.application.tolist()):
        tested = runs.application == name
        yield Split(name=name, trained=~tested, tested=tested)


def leave_one_gpu_out(runs: Runs) -> Iterator[Split]:
    """Hold out every GPU in turn, with all its applications."""
    _check_several(runs.gpu, "gpu")
    for name in dict.fromkeys(runs.gpu.tolist()):
        tested = runs.gpu == name
        yield Split(name=name, trained=~tested, tested=tested)


def leave_clock_range_out(runs: Runs) -> Iterator[Split]:
    """Hold out the lower, middle and upper third of the clocks below each default clock.

    Rows at the default clock are always trained on, for the profile is taken there.
    """
    default_mhz = np.array([runs.spec(gpu).default_clock_mhz for gpu in runs.gpu], dtype=float)
    lowest_mhz = np.array([runs.sm_clock_mhz[runs.gpu == gpu].min() for gpu in runs.gpu])
    span = np.maximum(default_mhz - lowest_mhz, 1e-9)
    height = (runs.sm_clock_mhz - lowest_mhz) / span
    for name, low, high in (
        ("lower third", -np.inf, 1 / 3),
        ("middle third", 1 / 3, 2 / 3),
        ("upper third", 2 / 3, np.inf),
    ):
        tested = (height >= low) & (height < high) & ~_profile_rows(runs)
        if tested.any() and (~tested).any():
            yield Split(name=name, trained=~tested, tested=tested)


SPLITS = {
    "application": leave_one_application_out,
    "gpu": leave_one_gpu_out,
    "clocks": leave_clock_range_out,
}


def splits(runs: Runs, kind: str) -> list[Split]:
    """Return the splits of one kind.

    Raises:
        UnknownNameError: If there is no such kind.
        ConfigError: If there is nothing to hold out.
    """
    if kind not in SPLITS:
        raise unknown_name("split", kind, SPLITS)
    return list(SPLITS[kind](runs))


def group_folds(groups: Names, num_folds: int, seed: int) -> list[Flags]:
    """Deal whole groups into at most ``num_folds`` folds; return which rows each holds out."""
    names = np.unique(groups)
    shuffled = names[np.random.default_rng(seed).permutation(len(names))]
    num_folds = min(num_folds, len(names))
    return [np.isin(groups, shuffled[start::num_folds]) for start in range(num_folds)]


def _profile_rows(runs: Runs) -> Flags:
    found = np.zeros(len(runs), dtype=np.bool_)
    for pair in runs.pairs:
        found[runs.profile_row(*pair)] = True
    return found


def _check_several(names: Names, column: str) -> None:
    known = sorted(set(names.tolist()))
    if len(known) < 2:
        raise ConfigError(
            f"Column {column!r} must hold at least two values to hold one out, got {known}."
        )
