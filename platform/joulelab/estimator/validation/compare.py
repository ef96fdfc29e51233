"""Compares estimates with what was measured: every point that physics allows, none picked.

Micro-benchmarks fix what a device does. What a host adds they cannot: runs of other people came
from other hosts. So :func:`hold_out` fits the few scalars that are left to the runs of all families
of models but one, and gives the errors on that one; every family is held out once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError, JouleLabError
from joulelab.estimator.validation.prediction import Prediction, predict_run
from joulelab.estimator.validation.runs import MeasuredRun
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import value_of, with_values

_PEAK_TOLERANCE = 0.98
_POWER_TOLERANCE = 1.05
"""Power readings of a class of boards are good to 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run and what the estimator says of it."""

    run: MeasuredRun
    predicted: Prediction

    @property
    def time_error(self) -> float | None:
        """Predicted over measured time, less 1."""
        return None if self.run.time_s is None else self.predicted.time_s / self.run.time_s - 1

    @property
    def energy_error(self) -> float | None:
        """Predicted over measured energy, less 1; ``None`` where a whole host was measured."""
        if self.run.energy_j is None or self.run.scope == "wall":
            return None
        return self.predicted.energy_j / self.run.energy_j - 1

    @property
    def share_of_wall(self) -> float | None:
        """Predicted energy of the device over that of its whole host, which must be larger."""
        if self.run.energy_j is None or self.run.scope != "wall":
            return None
        return self.predicted.energy_j / self.run.energy_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """All runs of a table: what was compared, and by name why others were not."""

    comparisons: tuple[Comparison, ...]
    rejected: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of several comparisons, mean and median absolute; ``None`` where nothing was measured.

    ``label`` is what they have in common, ``largest_share_of_wall`` the largest predicted share of
    a host's energy.
    """

    label: tuple[str, ...]
    num_points: int
    time_mape: float | None
    time_median: float | None
    energy_mape: float | None
    energy_median: float | None
    largest_share_of_wall: float | None


def validate(
    runs: Iterable[MeasuredRun], processors: Mapping[str, Processor] = PROCESSORS
) -> Validation:
    """Compare every one of ``runs`` that does not break physics."""
    comparisons: list[Comparison] = []
    rejected: dict[str, str] = {}
    for one in runs:
        if one.device not in processors:
            rejected[one.name] = f"{one.device} is not in the catalogue"
            continue
        processor = processors[one.device]
        try:
            predicted = predict_run(one, processor)
        except JouleLabError as error:
            rejected[one.name] = str(error)
            continue
        reason = _unphysical(one, predicted, processor)
        if reason:
            rejected[one.name] = reason
        else:
            comparisons.append(Comparison(run=one, predicted=predicted))
    return Validation(comparisons=tuple(comparisons), rejected=rejected)


def summaries(
    comparisons: Sequence[Comparison], label: Callable[[MeasuredRun], tuple[str, ...]]
) -> tuple[Summary, ...]:
    """Return the errors of ``comparisons`` by label, in the labels' order."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault(label(one.run), []).append(one)
    return tuple(summary(groups[key], key) for key in sorted(groups))


def summary(comparisons: Sequence[Comparison], label: tuple[str, ...] = ()) -> Summary:
    """Return the errors of ``comparisons``."""
    time_errors = _absolute(one.time_error for one in comparisons)
    energy_errors = _absolute(one.energy_error for one in comparisons)
    shares = _absolute(one.share_of_wall for one in comparisons)
    return Summary(
        label=label,
        num_points=len(comparisons),
        time_mape=fmean(time_errors) if time_errors else None,
        time_median=median(time_errors) if time_errors else None,
        energy_mape=fmean(energy_errors) if energy_errors else None,
        energy_median=median(energy_errors) if energy_errors else None,
        largest_share_of_wall=max(shares, default=None),
    )


def _absolute(values: Iterable[float | None]) -> list[float]:
    return [abs(value) for value in values if value is not None]


def _unphysical(measured: MeasuredRun, predicted: Prediction, processor: Processor) -> str:
    """Return why ``measured`` cannot be right; empty if it can."""
    if measured.time_s is not None and measured.time_s < _PEAK_TOLERANCE * predicted.least_s:
        times = predicted.least_s / measured.time_s
        return f"faster than the units can be: {times:.2f} times their peak"
    if measured.time_s is None or measured.energy_j is None or measured.scope == "wall":
        return ""
    power_w = measured.energy_j / measured.time_s
    if power_w > _POWER_TOLERANCE * processor.default_power_limit_w:
        return f"draws {power_w:.0f} W under a limit of {processor.default_power_limit_w:.0f} W"
    if power_w <= 0:
        return "has no energy"
    return ""


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
    processor: Processor, runs: Sequence[MeasuredRun], scalars: Sequence[str] = (HOST,)
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
    processor: Processor, runs: Sequence[MeasuredRun], scalars: Sequence[str]
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
