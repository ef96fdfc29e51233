"""What a phase's groups cost, one by one, so that they sum to the phase."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from joulelab.core.cost import Pipe
from joulelab.core.physics import OVERHEAD_SHARE
from joulelab.estimator.architecture import GroupWork, scaled, summed
from joulelab.estimator.architecture import events as events_of
from joulelab.estimator.estimate import (
    Bound,
    EnergySplit,
    Event,
    GroupEstimate,
    PhaseEstimate,
)
from joulelab.estimator.graph.concurrency import concurrency
from joulelab.estimator.graph.table import main_operator
from joulelab.estimator.precision import pipe_on
from joulelab.estimator.pricing.memory import memory
from joulelab.estimator.pricing.run import Conditions, PhaseRun
from joulelab.estimator.program import Operator

_NAMES_SHOWN = 3


def phase_estimate(result: PhaseRun, where: Conditions, *, events: bool) -> PhaseEstimate:
    """Return the phase of ``result``, run at the one point of ``where``, with all its groups.

    Energies, operations and bytes are summed over executions and devices, times over executions;
    powers are of one device.
    """
    phase, settled = result.plan.phase, result.settled
    sequence = result.plan.table.sequence
    groups = _Groups(result, where).estimates(events=events)
    energy = _sum([group.energy for group in groups])
    latency_s = sum(group.elapsed_s for group in groups)
    device_s = settled.device_s[0, sequence]
    throttled_s = float(device_s[settled.throttled[0, sequence]].sum()) * phase.count
    return PhaseEstimate(
        phase=phase.phase,
        work=phase.work,
        latency_s=latency_s,
        roofline_s=sum(group.roofline_s for group in groups),
        energy=energy,
        power_w=energy.total_j / latency_s / where.num_devices,
        peak_power_w=float(settled.power_w[0].max()),
        throttled_fraction=min(1.0, throttled_s / latency_s),
        groups=groups,
        memory=memory(phase.program, where.processor),
        concurrency=concurrency(phase.program, result.plan.groups, device_s.tolist()),
        events=summed(*(group.events for group in groups)) if events else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What all groups of one row have in common, per run and device, as plain numbers."""

    flop: dict[Pipe, float]
    moved_b: dict[str, float]
    device_s: float
    core_s: float
    memory_s: float
    roofline_s: float
    clock_mhz: float
    power_w: float
    slowed: bool
    energy: EnergySplit
    busy: float

    @property
    def core_share(self) -> float:
        """Share of the busy units' energy that goes with operations."""
        needed_s = self.core_s + self.memory_s
        return self.core_s / needed_s if needed_s > 0 else 0.0


class _Groups:
    """The groups of a phase at one point."""

    def __init__(self, result: PhaseRun, where: Conditions) -> None:
        self._result = result
        self._where = where
        self._runs = result.plan.phase.count
        self._found: dict[tuple[int, float], tuple[Event, ...]] = {}
        self._rows = [self._row(row) for row in range(result.plan.table.num_rows)]

    def estimates(self, *, events: bool) -> tuple[GroupEstimate, ...]:
        """Return one estimate per group, in the order in which they run."""
        plan = self._result.plan
        operators = plan.phase.program.operators
        elapsed, waits = self._result.elapsed_s[0].tolist(), self._result.wait_s[0].tolist()
        groups = []
        for index, row in enumerate(plan.table.sequence.tolist()):
            members = [operators[i] for i in plan.groups[index]]
            group = self._estimate(members, self._rows[row], elapsed[index], waits[index])
            if events:
                found = self._events(members, row, group, waits[index])
                group = replace(group, events=found)
            groups.append(group)
        return tuple(groups)

    def _row(self, row: int) -> _Row:
        settled, costs = self._result.settled, self._result.costs
        return _Row(
            flop={pipe: float(flop[row]) for pipe, flop in costs.flop.items() if flop[row]},
            moved_b={level: float(moved_b[row]) for level, moved_b in costs.moved_b.items()},
            device_s=float(settled.device_s[0, row]),
            core_s=float(settled.core_s[0, row]),
            memory_s=float(settled.memory_s[0, row]),
            roofline_s=float(costs.peak_s[row]) / float(self._where.overclock[0]),
            clock_mhz=float(settled.clock_mhz[0, row]),
            power_w=float(settled.power_w[0, row]),
            slowed=bool(settled.slowed[0, row]),
            energy=EnergySplit(
                compute_j=float(settled.compute_j[0, row]),
                memory_j=float(settled.memory_j[0, row]),
                static_j=float(settled.static_j[0, row]),
            ),
            busy=self._busy_share(row),
        )

    def _busy_share(self, row: int) -> float:
        """Return the share of the units' time on the device in which they are busy."""
        fixed_s = self._result.costs.fixed_s[row]
        device_s = self._result.settled.device_s[0, row]
        busy_s = self._result.costs.fill[row] * (device_s - fixed_s) + OVERHEAD_SHARE * fixed_s
        return float(busy_s / device_s)

    def _estimate(
        self, members: Sequence[Operator], row: _Row, elapsed_s: float, wait_s: float
    ) -> GroupEstimate:
        main, runs = members[main_operator(members)], self._runs
        all_runs = runs * self._where.num_devices
        waiting_j = wait_s * float(self._where.waiting_w[0])
        return GroupEstimate(
            name=_name(main, members),
            module=main.module,
            kind=main.kind,
            operators=tuple(operator.name for operator in members),
            count=1,
            flop={pipe: flop * all_runs for pipe, flop in row.flop.items()},
            moved_b={level: moved_b * all_runs for level, moved_b in row.moved_b.items()},
            device_s=row.device_s * runs,
            elapsed_s=elapsed_s * runs,
            roofline_s=row.roofline_s * runs,
            bound=_bound(row, elapsed_s),
            clock_mhz=row.clock_mhz,
            power_w=row.power_w,
            energy=EnergySplit(
                compute_j=row.energy.compute_j * all_runs,
                memory_j=row.energy.memory_j * all_runs,
                static_j=(row.energy.static_j + waiting_j) * all_runs,
            ),
        )

    def _work(
        self, members: Sequence[Operator], row: int, group: GroupEstimate, wait_s: float
    ) -> GroupWork:
        """Return what one device did of ``group``."""
        table, share, runs = self._result.plan.table, 1 / self._where.num_devices, self._runs
        main = members[main_operator(members)]
        energy = group.energy
        return GroupWork(
            kind=main.kind,
            operators=tuple(
                replace(operator, pipe=pipe_on(operator, self._where.processor))
                for operator in members
            ),
            count=runs,
            read_b=float(table.read_b[row]) * runs,
            weight_b=float(table.weight_b[row]) * runs,
            written_b=float(table.written_b[row]) * runs,
            moved_b={level: moved_b * share for level, moved_b in group.moved_b.items()},
            device_s=group.device_s,
            wait_s=wait_s * runs,
            clock_mhz=group.clock_mhz,
            waiting_mhz=float(self._where.clock_mhz[0]),
            energy=EnergySplit(
                compute_j=energy.compute_j * share,
                memory_j=energy.memory_j * share,
                static_j=energy.static_j * share,
            ),
            busy=self._rows[row].busy,
            core_share=self._rows[row].core_share,
        )

    def _events(
        self, members: Sequence[Operator], row: int, group: GroupEstimate, wait_s: float
    ) -> tuple[Event, ...]:
        """Return the events of ``group``, counted once for all groups that are alike."""
        if (row, wait_s) not in self._found:
            work = self._work(members, row, group, wait_s)
            found = events_of(work, self._where.processor)
            several = self._where.num_devices > 1
            self._found[row, wait_s] = scaled(found, self._where.num_devices) if several else found
        return self._found[row, wait_s]


def _bound(row: _Row, elapsed_s: float) -> Bound:
    """Return what sets the time: launching where most of it is not the kernel's own work."""
    longer_s = max(row.core_s, row.memory_s)
    if elapsed_s - longer_s > longer_s and not row.slowed:
        return "launch"
    if row.slowed:
        return "power"
    return "compute" if row.core_s >= row.memory_s else "memory"


def _name(main: Operator, members: Sequence[Operator]) -> str:
    names = [operator.name for operator in members]
    shown = " + ".join(names[:_NAMES_SHOWN])
    more = f" + {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{main.module}: {shown}{more}" if main.module else f"{shown}{more}"


def _sum(energies: Sequence[EnergySplit]) -> EnergySplit:
    columns = np.array([(e.compute_j, e.memory_j, e.static_j) for e in energies])
    compute_j, memory_j, static_j = columns.sum(axis=0).tolist()
    return EnergySplit(compute_j=compute_j, memory_j=memory_j, static_j=static_j)
