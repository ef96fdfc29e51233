"""A phase run on a processor, at any number of operating points at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from joulelab.core.physics import CAP_SHARE
from joulelab.core.point import OperatingPoint
from joulelab.estimator.estimate import Mode
from joulelab.estimator.graph.compiled import pruned
from joulelab.estimator.graph.fusion import Groups, fused, unfused
from joulelab.estimator.graph.table import WorkTable, tabulate
from joulelab.estimator.precision import at_precision
from joulelab.estimator.pricing import launch
from joulelab.estimator.pricing.power import Settled, requested, settle, waiting_w
from joulelab.estimator.pricing.roofline import GroupCosts, group_costs
from joulelab.estimator.program import ProgramPhase, TracedModel
from joulelab.hardware.processor import Processor

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A phase as it is run in one mode, on whatever processor.

    Attributes:
        phase: The phase, its program in the precision in which it runs.
        groups: Operators that run as one kernel.
        table: Their work.
    """

    phase: ProgramPhase
    groups: Groups
    table: WorkTable


def plan(model: TracedModel, mode: Mode) -> tuple[Plan, ...]:
    """Return the phases of ``model`` as they are run in ``mode``."""
    return tuple(_plan(phase, model.precision, mode) for phase in model.phases)


def _plan(phase: ProgramPhase, precision: str, mode: Mode) -> Plan:
    program = at_precision(phase.program, precision)
    if mode == "compiled":
        program = pruned(program)
    groups = fused(program) if mode == "compiled" else unfused(program)
    return Plan(
        phase=replace(phase, program=program), groups=groups, table=tabulate(program, groups)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How and where phases run; arrays have one entry per point.

    Attributes:
        processor: What they run on.
        mode: How kernels are launched, as the processor does it.
        num_devices: Processors that share the work.
        clock_mhz: Requested core clocks.
        cap_w: Power limits of each processor.
        held_w: Power at which it is held where a limit binds.
        waiting_w: Power while a processor waits.
    """

    processor: Processor
    mode: Mode
    num_devices: int
    clock_mhz: Array
    cap_w: Array
    held_w: Array
    waiting_w: Array

    @property
    def overclock(self) -> Array:
        """Requested clock over the default one, at least 1."""
        return np.maximum(1.0, self.clock_mhz / self.processor.default_clock_mhz)


def conditions(
    processor: Processor, mode: Mode, points: Sequence[OperatingPoint], num_devices: int
) -> Conditions:
    """Return the conditions of ``points`` on ``processor``.

    Raises:
        ConfigError: If a point is off its range.
    """
    clock_mhz, cap_w = requested(processor, points)
    return Conditions(
        processor=processor,
        mode=launch.mode_on(processor, mode),
        num_devices=num_devices,
        clock_mhz=clock_mhz,
        cap_w=cap_w,
        held_w=CAP_SHARE * cap_w,
        waiting_w=waiting_w(processor, clock_mhz, CAP_SHARE * cap_w),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRun:
    """One execution of a phase on one processor; arrays are (points, ...).

    Attributes:
        plan: What was run.
        costs: What its distinct groups ask for.
        settled: At what clock, time and energy these run.
        elapsed_s: Share of each group of the sequence in the latency.
        where: Where and how.
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
        """Least time of one execution at peak rates, per point.

        At the default clock, or at the requested one if that is higher.
        """
        least_s: Array = self.costs.peak_s[self.plan.table.sequence].sum() / self.where.overclock
        return least_s

    @property
    def wait_s(self) -> Array:
        """Time in which each group of the sequence leaves the device waiting."""
        device_s = self.settled.device_s[:, self.plan.table.sequence]
        return np.maximum(0.0, self.elapsed_s - device_s)

    @property
    def energy_j(self) -> Array:
        """Energy of one execution on one processor, per point."""
        settled, table = self.settled, self.plan.table
        counts = np.bincount(table.sequence, minlength=table.num_rows)
        busy_j = (settled.compute_j + settled.memory_j + settled.static_j) @ counts
        idle_s = np.maximum(0.0, self.latency_s - settled.device_s @ counts)
        return busy_j + idle_s * self.where.waiting_w


def _as_compiled(where: Conditions) -> Processor:
    """Return the processor, which need not change layouts where a compiler chose one for all."""
    if where.mode != "compiled":
        return where.processor
    timing = replace(where.processor.timing, layout_efficiency=None)
    return replace(where.processor, timing=timing)


def run(plan: Plan, where: Conditions, *, toggle: float = 1.0) -> PhaseRun:
    """Run ``plan``.

    Args:
        plan: The phase.
        where: Where and how.
        toggle: What is left of the energy of operations and of the last cache's bytes, 0..1.

    Raises:
        ConfigError: If matrix work has a format that the processor lacks.
    """
    costs = group_costs(plan.table, _as_compiled(where), where.num_devices)
    if toggle != 1.0:
        costs = replace(costs, flop_j=toggle * costs.flop_j, cache_j=toggle * costs.cache_j)
    settled = settle(costs, where.processor, where.clock_mhz, where.held_w)
    sequence = plan.table.sequence
    elapsed_s = launch.elapsed_s(
        settled.device_s[:, sequence],
        launch.launch_s(plan.table, where.processor, where.mode)[sequence],
        queued=launch.is_queued(where.processor, where.mode),
    )
    return PhaseRun(plan=plan, costs=costs, settled=settled, elapsed_s=elapsed_s, where=where)
