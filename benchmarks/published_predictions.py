"""What the estimator says of a run: its program, at the batch and the clock at which it ran."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from published_runs import PublishedRun

from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.estimator.estimate import FUSING, Mode
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.memory import memory
from joulelab.estimator.pricing.run import PhaseRun, Plan, channels_last, conditions, plan, run
from joulelab.estimator.validation import Prediction
from joulelab.hardware.processor import Family, Processor
from joulelab.tracing.precision import is_matrix
from joulelab.tracing.program import Operator, Program, TracedModel


def narrowed(model: TracedModel) -> TracedModel:
    """Return ``model``, quantised to eight bits, with eight bits between its layers as well.

    Its products read eight bits already; what goes into it, what they write, and what everything
    between them reads and writes, shrinks from sixteen. What no product reads any more, such as
    scores and boxes on their way to being chosen from, keeps its precision.
    """
    phases = tuple(replace(phase, program=_program(phase.program)) for phase in model.phases)
    return replace(model, phases=phases)


def _program(program: Program) -> Program:
    narrow = _read_by_products(program)
    operators = tuple(_operator(operator, narrow) for operator in program.operators)
    return replace(program, operators=operators, input_b=program.input_b / 2)


def _read_by_products(program: Program) -> frozenset[int]:
    """Return the values that a product reads, directly or through other operators."""
    found: set[int] = set()
    for operator in reversed(program.operators):
        if is_matrix(operator) or not found.isdisjoint(operator.outputs):
            found.update(operator.inputs)
    return frozenset(found)


def _operator(operator: Operator, narrow: frozenset[int]) -> Operator:
    if not narrow.isdisjoint(operator.outputs):
        outputs_b = tuple(size_b / 2 for size_b in operator.outputs_b)
        operator = replace(operator, written_b=operator.written_b / 2, outputs_b=outputs_b)
    if is_matrix(operator) or narrow.isdisjoint(operator.inputs):
        return operator
    inputs_b = tuple(size_b / 2 for size_b in operator.inputs_b)
    return replace(operator, read_b=operator.read_b / 2, inputs_b=inputs_b)


Array = NDArray[np.float64]

_CLOCKS = 41
"""Clocks that are tried between the lowest and the default one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    model: str
    batch: int
    precision: str
    mode: Mode
    is_narrow: bool
    is_channels_last: bool
    family: Family
    knobs: tuple[tuple[str, KnobValue], ...]


@cache
def _plans(asked: _Asked) -> tuple[Plan, ...]:
    knobs: dict[str, Any] = dict(asked.knobs)
    traced = trace_model(
        asked.model,
        batch=asked.batch,
        precision=asked.precision,
        compiled=asked.mode in FUSING,
        **knobs,
    )
    placed = _with_channels_last(traced) if asked.is_channels_last else traced
    return plan(narrowed(placed) if asked.is_narrow else placed, asked.mode, asked.family)


def _with_channels_last(traced: TracedModel) -> TracedModel:
    phases = (replace(one, program=channels_last(one.program)) for one in traced.phases)
    return replace(traced, phases=tuple(phases))


def predict_run(measured: PublishedRun, processor: Processor) -> Prediction:
    """Return what ``measured`` costs on ``processor``; analysing its program is done once.

    Raises:
        ConfigError: If the processor lacks the precision.
    """
    size = _fastest_batch(measured, processor) if measured.free_batches else measured.batch
    share, best = measured.batch / size, _predict_batch(measured, size, processor)
    return Prediction(
        time_s=best.time_s * share, energy_j=best.energy_j * share, least_s=best.least_s * share
    )


def _fastest_batch(measured: PublishedRun, processor: Processor) -> int:
    """Return the batch that takes least time per sample at the default clock."""
    unhurried = replace(measured, paced_s=None, clock_mhz=None)
    sizes = [size for size in measured.free_batches if _fits(measured, size, processor)]
    return min(sizes, key=lambda size: _predict_batch(unhurried, size, processor).time_s / size)


def _fits(measured: PublishedRun, batch: int, processor: Processor) -> bool:
    """Return whether ``batch`` fits the device's memory; the smallest that is free always does."""
    if batch == min(measured.free_batches):
        return True
    plans = _plans(_asked(measured, batch, processor))
    return all(memory(one.phase.program, processor).fits for one in plans)


def _asked(measured: PublishedRun, batch: int, processor: Processor) -> _Asked:
    return _Asked(
        model=measured.model,
        batch=batch,
        precision=measured.precision,
        mode=measured.mode,
        is_narrow=measured.is_narrow,
        is_channels_last=measured.is_channels_last,
        family=processor.family,
        knobs=tuple(sorted(measured.knobs.items())),
    )


def _predict_batch(measured: PublishedRun, batch: int, processor: Processor) -> Prediction:
    """Return what ``batch`` samples cost, at the clock at which they were run."""
    plans = _plans(_asked(measured, batch, processor))
    where = conditions(processor, measured.mode, _points(measured, processor), 1)
    runs = [run(one, where) for one in plans]
    copied_s = sum(_copied_s(measured, one) for one in plans)
    time_s = copied_s + _summed([result.latency_s for result in runs], plans)
    energy_j = copied_s * where.waiting_w + _summed([result.energy_j for result in runs], plans)
    chosen = 0
    if measured.paced_s is not None:
        paced_s = measured.paced_s * batch / measured.batch
        chosen = _slowest_that_keeps_up(time_s, paced_s)
        if measured.clock_mhz is not None:  # others did the rest meanwhile
            energy_j = energy_j / time_s * paced_s
    return Prediction(
        time_s=float(time_s[chosen]),
        energy_j=float(energy_j[chosen]),
        least_s=sum(_least_s(result, processor) for result in runs),
    )


def _summed(values: Sequence[Array], plans: Sequence[Plan]) -> Array:
    """Return the sum of one execution's ``values`` over all executions."""
    counts = np.array([[one.phase.count] for one in plans])
    total: Array = (np.array(values) * counts).sum(axis=0)
    return total


def _copied_s(measured: PublishedRun, plan: Plan) -> float:
    """Return the time in which inputs of all executions come from the host."""
    if measured.host_link_b_per_s is None:
        return 0.0
    return plan.phase.count * plan.phase.program.input_b / measured.host_link_b_per_s


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


def _points(measured: PublishedRun, processor: Processor) -> list[OperatingPoint]:
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
