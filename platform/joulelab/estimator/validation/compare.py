"""Compares estimates with what was measured: every point that physics allows, none picked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from joulelab.errors import JouleLabError
from joulelab.estimator.validation.prediction import Prediction, predict_run
from joulelab.estimator.validation.runs import MeasuredRun
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS

_PEAK_TOLERANCE = 0.98
_POWER_TOLERANCE = 1.05
"""Power readings of a class of boards are good to 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run and what the estimator says of it.

    Attributes:
        run: As measured.
        predicted: As estimated.
    """

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
    """All runs of a table.

    Attributes:
        comparisons: One for each run that was compared.
        rejected: Why others were not, by name of the run.
    """

    comparisons: tuple[Comparison, ...]
    rejected: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of several comparisons.

    Attributes:
        label: What they have in common.
        num_points: How many.
        time_mape: Mean absolute relative error of time; ``None`` if none was measured.
        time_median: Median of the absolute errors.
        energy_mape: The same of energy.
        energy_median: The same of energy.
        largest_share_of_wall: Largest predicted share of a host's energy.
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
