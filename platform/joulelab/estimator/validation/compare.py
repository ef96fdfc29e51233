"""Compares estimates with what was measured: every point that physics allows, none picked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import JouleLabError
from joulelab.estimator.estimate import Mode
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.memory import memory
from joulelab.estimator.pricing.run import PhaseRun, Plan, conditions, plan, run
from joulelab.estimator.validation.narrow import narrowed
from joulelab.estimator.validation.runs import MeasuredRun
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS

Array = NDArray[np.float64]

_CLOCKS = 41
"""Clocks that are tried between the lowest and the default one."""
_PEAK_TOLERANCE = 0.98
_POWER_TOLERANCE = 1.05
"""Power readings of a class of boards are good to 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the estimator says of a run.

    Attributes:
        time_s: Time of one execution.
        energy_j: Energy of one execution on one device.
        least_s: Time below which the units cannot do its operations, at the highest clock.
    """

    time_s: float
    energy_j: float
    least_s: float


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    model: str
    batch: int
    precision: str
    mode: Mode
    is_narrow: bool
    knobs: tuple[tuple[str, KnobValue], ...]


@cache
def _plans(asked: _Asked) -> tuple[Plan, ...]:
    knobs: dict[str, Any] = dict(asked.knobs)
    traced = trace_model(asked.model, batch=asked.batch, precision=asked.precision, **knobs)
    return plan(narrowed(traced) if asked.is_narrow else traced, asked.mode)


def predict_run(measured: MeasuredRun, processor: Processor) -> Prediction:
    """Return what ``measured`` costs on ``processor``; analysing its program is done once.

    Raises:
        ConfigError: If the processor lacks the precision.
    """
    sizes = [
        size
        for size in measured.free_batches or (measured.batch,)
        if not measured.free_batches or _fits(measured, size, processor)
    ]
    each = {size: _predict_batch(measured, size, processor) for size in sizes}
    size = min(each, key=lambda size: each[size].time_s / size)
    share, best = measured.batch / size, each[size]
    return Prediction(
        time_s=best.time_s * share, energy_j=best.energy_j * share, least_s=best.least_s * share
    )


def _fits(measured: MeasuredRun, batch: int, processor: Processor) -> bool:
    """Return whether ``batch`` fits the device's memory; the smallest that is free always does."""
    if batch == min(measured.free_batches):
        return True
    plans = _plans(_asked(measured, batch))
    return all(memory(one.phase.program, processor).fits for one in plans)


def _asked(measured: MeasuredRun, batch: int) -> _Asked:
    return _Asked(
        model=measured.model,
        batch=batch,
        precision=measured.precision,
        mode=measured.mode,
        is_narrow=measured.is_narrow,
        knobs=tuple(sorted(measured.knobs.items())),
    )


def _predict_batch(measured: MeasuredRun, batch: int, processor: Processor) -> Prediction:
    """Return what ``batch`` samples cost, at the clock at which they were run."""
    plans = _plans(_asked(measured, batch))
    points = _points(measured, processor)
    where = conditions(_with_layout_of(measured, processor), measured.mode, points, 1)
    runs = [run(one, where) for one in plans]
    counts = np.array([[result.plan.phase.count] for result in runs])
    time_s: Array = (np.array([result.latency_s for result in runs]) * counts).sum(axis=0)
    energy_j: Array = (np.array([result.energy_j for result in runs]) * counts).sum(axis=0)
    paced_s = None if measured.paced_s is None else measured.paced_s * batch / measured.batch
    chosen = 0 if paced_s is None else _slowest_that_keeps_up(time_s, paced_s)
    least_s = sum(_least_s(result, processor) for result in runs)
    if paced_s is not None and measured.clock_mhz is not None:
        energy_j = energy_j / time_s * paced_s
    return Prediction(
        time_s=float(time_s[chosen]), energy_j=float(energy_j[chosen]), least_s=least_s
    )


def _with_layout_of(measured: MeasuredRun, processor: Processor) -> Processor:
    """Return ``processor``, which changes no layouts if images have the right one."""
    if not measured.is_channels_last:
        return processor
    return replace(processor, timing=replace(processor.timing, layout_efficiency=None))


def _least_s(result: PhaseRun, processor: Processor) -> float:
    """Return the time of all executions at the peaks of their pipes, at the highest clock."""
    sequence, count = result.plan.table.sequence, result.plan.phase.count
    return count * sum(
        float(flop[sequence].sum()) / processor.peak_flop_per_s(pipe, processor.clocks_mhz[2])
        for pipe, flop in result.costs.flop.items()
    )


def _slowest_that_keeps_up(time_s: Array, paced_s: float) -> int:
    """Return the first of rising clocks that is as fast as ``paced_s``; the last if none is."""
    keeps_up = np.nonzero(time_s <= paced_s)[0]
    return int(keeps_up[0]) if len(keeps_up) else len(time_s) - 1


def _points(measured: MeasuredRun, processor: Processor) -> list[OperatingPoint]:
    """Return where it may have run: one point, or clocks in rising order where these are free."""
    lowest_w, _ = processor.power_limits_w
    limit_w = measured.power_limit_w
    if limit_w is not None:
        is_lower = limit_w < processor.default_power_limit_w
        limit_w = max(lowest_w, limit_w) if is_lower else None
    lowest_mhz, default_mhz, _ = processor.clocks_mhz
    clocks: Sequence[int | None] = (measured.clock_mhz,)
    if measured.paced_s is not None and measured.clock_mhz is None:
        clocks = [round(clock) for clock in np.linspace(lowest_mhz, default_mhz, _CLOCKS)]
    return [OperatingPoint(sm_clock_mhz=clock, power_limit_w=limit_w) for clock in clocks]


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
