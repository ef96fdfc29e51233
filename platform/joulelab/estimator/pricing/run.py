"""A phase run on a processor, at any number of operating points at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

import numpy as np

from joulelab.core.point import OperatingPoint
from joulelab.core.power_law import CAP_SHARE
from joulelab.estimator.estimate import FUSING, Mode
from joulelab.estimator.pricing.kernel_count import num_kernels
from joulelab.estimator.pricing.power import (
    Execution,
    Settled,
    requested,
    settle,
    static_w,
    waiting_w,
)
from joulelab.estimator.pricing.roofline import GroupCosts, group_costs
from joulelab.estimator.pricing.table import Array, WorkTable, tabulate
from joulelab.hardware.processor import Family, Processor, ProcessorTiming
from joulelab.tracing.fusion import Groups, ValueBytes, fused, unfused
from joulelab.tracing.precision import at_precision, element_b
from joulelab.tracing.program import Operator, Program, ProgramPhase, TracedModel

LIBRARY_LAUNCH = 0.77
"""Launches of kernels within a library's call, over those of PyTorch's operators: fitted with them
to an LSTM and to convolutions of wide groups (experiments/results/h200_hosts)."""


def mode_on(processor: Processor, mode: Mode) -> Mode:
    """Return how ``processor`` launches when asked for ``mode``: TPUs and KPUs always compile."""
    return "compiled" if processor.family in ("tpu", "kpu") else mode


def launch_s(plan: "Plan", processor: Processor, mode: Mode) -> Array:
    """Return the launch time of each group in sequence: of the host, or between kernels."""
    table, timing = plan.table, processor.timing
    kernels = num_kernels(table, processor)
    if mode_on(processor, mode) != "eager":
        return (timing.graph_launch_s * kernels)[table.sequence]
    launches = np.array([_launch_s(table, row, timing) for row in table.main])
    in_training = timing.training_launch if plan.is_training else 1.0
    around_s = timing.module_s * plan.entered + timing.view_s * plan.calls_before
    in_calls_s = LIBRARY_LAUNCH * timing.launch_s("default") * (kernels - 1)
    host_s: Array = in_training * (launches[table.sequence] + around_s) + in_calls_s[table.sequence]
    return host_s


def _launch_s(table: WorkTable, row: int, timing: ProcessorTiming) -> float:
    operator, found = table.operators[row], table.classes[row]
    return timing.launch_s(f"{found}_{operator.dtype}", found, operator.kind)


def elapsed_s(device_s: Array, launches_s: Array, *, queued: bool) -> Array:
    """Return the share of each kernel in the time of an execution, one of many in a row.

    Without a queue, every kernel waits for its own launch. With one, the host launches the next
    execution while the device ends this one, so that the slower of both sets the pace. Waits fall
    where they would within one execution, in which kernel i starts when the host has launched it
    and the one before has ended: ``end_i = max(host_i, end_{i-1}) + t_i``, solved by a running
    maximum along the last axis.
    """
    if not queued:
        return device_s + launches_s
    before_s = np.cumsum(device_s, axis=-1) - device_s
    start_s = np.maximum.accumulate(np.cumsum(launches_s, axis=-1) - before_s, axis=-1)
    waits_s = np.diff(start_s, axis=-1, prepend=0.0)
    ahead_s = launches_s.sum(axis=-1) - device_s.sum(axis=-1)
    all_s = start_s[..., -1]
    left = np.divide(np.maximum(0.0, ahead_s), all_s, out=np.zeros_like(all_s), where=all_s > 0)
    shares_s: Array = device_s + waits_s * left[..., None]
    return shares_s


def is_queued(processor: Processor, mode: Mode) -> bool:
    """Return whether the host launches ahead of the device: eager programs on GPUs."""
    return processor.family == "gpu" and mode == "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A phase in the precision in which it runs, its kernels in one mode, and their work."""

    phase: ProgramPhase
    groups: Groups
    table: WorkTable
    entered: Array  # modules that were entered before each group of the table's sequence
    calls_before: Array  # calls before each of them that launch no kernel

    @property
    def is_training(self) -> bool:
        """Whether it is a step of training."""
        return any(one.stage == "backward" for one in self.phase.program.operators)


def plan(model: TracedModel, mode: Mode, family: Family) -> tuple[Plan, ...]:
    """Return the phases of ``model`` as processors of ``family`` run them in ``mode``."""
    return tuple(_plan(phase, model.precision, mode, family) for phase in model.phases)


def _plan(phase: ProgramPhase, precision: str, mode: Mode, family: Family) -> Plan:
    program = at_precision(phase.program, precision)
    is_compiled = mode in FUSING
    if is_compiled:  # a compiler chose one layout for all
        program = channels_last(pruned(program))
    by_libraries = mode == "compiled" and family == "gpu"
    groups = fused(program, apart=by_libraries) if is_compiled else unfused(program)
    operators = program.operators
    calls = [sum(operators[index].calls_before for index in members) for members in groups]
    return Plan(
        phase=replace(phase, program=program),
        groups=groups,
        table=tabulate(program, groups, fused=by_libraries),
        entered=_entered([operators[members[0]].module for members in groups]),
        calls_before=np.array(calls, dtype=float),
    )


def _entered(modules: Sequence[str]) -> Array:
    """Return how many modules are entered before each of a sequence of calls, by their paths."""
    paths = [module.split(".") if module else [] for module in modules]
    return np.array([_levels(*pair) for pair in pairwise([[], *paths])], dtype=float)


def _levels(before: Sequence[str], path: Sequence[str]) -> int:
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(before, path, strict=False))
    return len(path) - sum(1 for _ in shared)


def channels_last(program: Program) -> Program:
    """Return ``program`` with images of which all channels of a pixel are side by side."""
    return replace(
        program,
        operators=tuple(
            replace(one, layout="channels_last") if one.kind == "conv" else one
            for one in program.operators
        ),
    )


def pruned(program: Program) -> Program:
    """Return ``program`` without by-products that nothing reads and pixels that nothing needs.

    A result that nothing reads beside one that is read is a by-product; where nothing reads any,
    they are results of the program. Operators of PyTorch make more than programs need: pooling
    writes where each maximum was, norms their statistics, attention the logarithms of its sums. And
    a convolution of single pixels that skips every other one need not fetch those in between, as
    compilers keep all channels of a pixel side by side. What the program holds in memory is left
    as it was traced.
    """
    values = ValueBytes(program)
    operators = tuple(
        _with_windows(_without_by_products(operator, values)) for operator in program.operators
    )
    return replace(program, operators=operators)


def _without_by_products(operator: Operator, values: ValueBytes) -> Operator:
    read = [value in values.readers for value in operator.outputs]
    if all(read) or not any(read) or len(operator.outputs_b) != len(operator.outputs):
        return operator
    kept = [
        (value, size_b)
        for value, size_b, is_read in zip(operator.outputs, operator.outputs_b, read, strict=True)
        if is_read
    ]
    outputs, outputs_b = zip(*kept, strict=True)
    return replace(operator, outputs=outputs, outputs_b=outputs_b, written_b=sum(outputs_b))


def _with_windows(operator: Operator) -> Operator:
    """Let a convolution read at most what its windows hold, however few pixels these cover."""
    shape = operator.shape
    if operator.kind != "conv" or shape is None or operator.stage != "forward":
        return operator
    windows_b = shape.batch * shape.m * shape.k * element_b(operator.dtype)
    if windows_b >= operator.read_b:
        return operator
    share = windows_b / operator.read_b
    inputs_b = tuple(size_b * share for size_b in operator.inputs_b)
    return replace(operator, read_b=windows_b, inputs_b=inputs_b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How and where phases run; arrays have one entry per point."""

    processor: Processor
    mode: Mode  # how kernels are launched, as the processor does it
    num_devices: int
    clock_mhz: Array
    cap_w: Array  # power limits of each processor
    held_w: Array  # power at which it is held where a limit binds
    waiting_w: Array  # power of a processor that only waits

    @property
    def overclock(self) -> Array:
        """Requested clock over the default one, at least 1."""
        return np.maximum(1.0, self.clock_mhz / self.processor.default_clock_mhz)


def conditions(
    processor: Processor, mode: Mode, points: Sequence[OperatingPoint], num_devices: int
) -> Conditions:
    """Return the conditions of ``points`` on ``processor``; ConfigError if one is off its range."""
    processor = processor.sharing(num_devices)
    clock_mhz, cap_w = requested(processor, points)
    return Conditions(
        processor=processor,
        mode=mode_on(processor, mode),
        num_devices=num_devices,
        clock_mhz=clock_mhz,
        cap_w=cap_w,
        held_w=CAP_SHARE * cap_w,
        waiting_w=waiting_w(processor, clock_mhz, CAP_SHARE * cap_w),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRun:
    """One execution of a phase on one processor; arrays are (points, ...).

    ``costs`` and ``settled`` are of distinct groups, ``elapsed_s`` is of the groups in sequence.
    """

    plan: Plan
    costs: GroupCosts
    settled: Settled
    elapsed_s: Array
    where: Conditions

    @property
    def latency_s(self) -> Array:
        """Time of one execution, per point."""
        latency_s: Array = self.elapsed_s.sum(axis=-1)
        return latency_s

    @property
    def roofline_s(self) -> Array:
        """Least time at peak rates, at the default clock or a higher one asked for, per point."""
        least_s: Array = self.costs.peak_s[self.plan.table.sequence].sum() / self.where.overclock
        return least_s

    @property
    def wait_s(self) -> Array:
        """Time in which each group of the sequence leaves the device waiting."""
        device_s = self.settled.device_s[:, self.plan.table.sequence]
        return np.maximum(0.0, self.elapsed_s - device_s)

    @property
    def waiting_w(self) -> Array:
        """Power of the device while it waits for the next group, per point."""
        return static_w(self.where.processor, self.settled.waiting_mhz[:, 0])

    @property
    def energy_j(self) -> Array:
        """Energy of one execution on one processor, per point."""
        settled, table = self.settled, self.plan.table
        counts = np.bincount(table.sequence, minlength=table.num_rows)
        busy_j = (settled.compute_j + settled.memory_j + settled.static_j) @ counts
        idle_s = np.maximum(0.0, self.latency_s - settled.device_s @ counts)
        return busy_j + idle_s * self.waiting_w


def run(plan: Plan, where: Conditions, *, toggle: float = 1.0) -> PhaseRun:
    """Run ``plan``, with ``toggle`` left of the energy of operations and the last cache, 0..1."""
    processor = where.processor
    costs = group_costs(plan.table, processor, where.num_devices)
    if toggle != 1.0:
        costs = replace(costs, flop_j=toggle * costs.flop_j, cache_j=toggle * costs.cache_j)
    return run_at(plan, costs, where)


def run_at(plan: Plan, costs: GroupCosts, where: Conditions) -> PhaseRun:
    """Run ``plan``, whose groups ask ``costs`` of the processor."""
    sequence, processor = plan.table.sequence, where.processor
    launches_s = launch_s(plan, processor, where.mode)
    queued = is_queued(processor, where.mode)

    def elapsed(device_s: Array) -> Array:
        return elapsed_s(device_s[:, sequence], launches_s, queued=queued)

    execution = Execution(
        counts=np.bincount(sequence, minlength=plan.table.num_rows).astype(np.float64),
        latency_s=lambda device_s: elapsed(device_s).sum(axis=-1),
    )
    settled = settle(costs, processor, where.clock_mhz, where.held_w, execution)
    return PhaseRun(
        plan=plan, costs=costs, settled=settled, elapsed_s=elapsed(settled.device_s), where=where
    )
