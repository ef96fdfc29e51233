"""Fits what a host adds to runs of all families of models but one, and predicts that one.

Micro-benchmarks fix what a device does. What a host adds they cannot: runs of other people came
from other hosts. So :func:`hold_out` fits the few scalars that are left to the runs of all families
of models but one, and gives the errors on that one; every family is held out once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.typing import NDArray
from published_predictions import predict_run
from published_runs import PublishedRun

from joulelab.errors import ConfigError
from joulelab.estimator.validation import Comparison, Prediction
from joulelab.hardware.processor import Processor
from joulelab.hardware.scalars import value_of, with_values

HOST = "host"
"""Scales all launch times from eager PyTorch together: how slow the host is."""
BOARD = "board"
"""Scales all energies: the gain of that board's own sensor, within :data:`SENSOR_GAIN`."""

SENSOR_GAIN = 0.05
"""By how much sensors of boards of one kind differ at most (Yang, Adamek, Armour, "Part-time Power
Measurements", SC 2024: 5 %)."""

_LARGEST_CHANGE = 5.0
_STEP = 1e-2
_DOUBT = 0.1
"""Weight of a scalar's change, as an error: what micro-benchmarks say holds unless runs object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Every run, predicted without the runs of its family.

    Attributes:
        factors: For each family, by what the others' runs change each free scalar.
    """

    comparisons: tuple[Comparison, ...]
    factors: Mapping[str, Mapping[str, float]]


def hold_out(
    processor: Processor, runs: Sequence[PublishedRun], scalars: Sequence[str] = (HOST,)
) -> HeldOut:
    """Predict the runs of each family with ``scalars`` fitted to those of all others.

    Scalars are dotted names, :data:`HOST` or :data:`BOARD`; the runs are of one host.

    Raises:
        ConfigError: If there are fewer than two families.
    """
    families = sorted({run.family for run in runs})
    if len(families) < 2:
        raise ConfigError(f"Holding out needs two families of models or more, got {families}.")
    factors = {
        family: fit_factors(processor, [run for run in runs if run.family != family], scalars)
        for family in families
    }
    changed = {family: scaled(processor, factors[family]) for family in families}
    comparisons = tuple(
        Comparison(
            run=run, predicted=_as_read(predict_run(run, changed[run.family]), factors[run.family])
        )
        for run in runs
    )
    return HeldOut(comparisons=comparisons, factors=factors)


def fit_factors(
    processor: Processor, runs: Sequence[PublishedRun], scalars: Sequence[str]
) -> dict[str, float]:
    """Return by what ``scalars`` change for the least log errors of time and energy."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    measured = np.log([value for run in runs for value in (run.time_s, run.energy_j) if value])

    def errors(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        factors = _factors(scalars, logs)
        changed = scaled(processor, factors)
        predicted = [_as_read(predict_run(run, changed), factors) for run in runs]
        pairs = zip(runs, predicted, strict=True)
        values = [
            estimated
            for run, prediction in pairs
            for value, estimated in (
                (run.time_s, prediction.time_s),
                (run.energy_j, prediction.energy_j),
            )
            if value
        ]
        return np.concatenate([np.log(values) - measured, _DOUBT * logs])

    largest = [1 + SENSOR_GAIN if name == BOARD else _LARGEST_CHANGE for name in scalars]
    lowest = -np.log(largest)
    highest = np.array([log(_largest_factor(processor, name)) for name in scalars])
    found = least_squares(
        errors,
        np.minimum(0.0, highest - _STEP),
        bounds=(lowest, highest),
        loss="soft_l1",
        f_scale=0.1,
        diff_step=_STEP,
    )
    return _factors(scalars, found.x)


def _largest_factor(processor: Processor, name: str) -> float:
    """Return by what a scalar may grow: efficiencies up to 1, a board within its kind."""
    if name == BOARD:
        return 1 + SENSOR_GAIN
    if "efficiency" not in name:
        return _LARGEST_CHANGE
    return min(_LARGEST_CHANGE, 1.0 / value_of(processor, name))


def scaled(processor: Processor, factors: Mapping[str, float]) -> Processor:
    """Return ``processor`` with scalars multiplied by ``factors``."""
    for name, factor in factors.items():
        if name == BOARD:  # what its sensor reads changes, not what it does
            continue
        if name == HOST:
            launches = processor.timing.eager_launch_s
            slower = {kind: launch_s * factor for kind, launch_s in launches.items()}
            timing = replace(processor.timing, eager_launch_s=slower)
            processor = replace(processor, timing=timing)
            continue
        processor = with_values(processor, {name: value_of(processor, name) * factor})
    return processor


def _as_read(predicted: Prediction, factors: Mapping[str, float]) -> Prediction:
    return replace(predicted, energy_j=predicted.energy_j * factors.get(BOARD, 1.0))


def _factors(scalars: Sequence[str], logs: NDArray[np.float64]) -> dict[str, float]:
    return {name: exp(value) for name, value in zip(scalars, logs, strict=True)}
