"""What a phase's groups cost, one by one, so that they sum to the phase; which could overlap."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from joulelab.errors import ConfigError
from joulelab.estimator.architecture import GroupWork, scaled, summed
from joulelab.estimator.architecture import events as events_of
from joulelab.estimator.estimate import (
    Bound,
    Concurrency,
    EnergySplit,
    Event,
    GroupEstimate,
    PhaseEstimate,
)
from joulelab.estimator.pricing.memory import memory
from joulelab.estimator.pricing.power import FIXED_SHARE
from joulelab.estimator.pricing.run import PhaseRun
from joulelab.hardware.processor import Processor
from joulelab.tracing.fusion import Groups, group_indices
from joulelab.tracing.precision import pipe_on
from joulelab.tracing.program import Operator, Program, main_operator


def concurrency(program: Program, groups: Groups, seconds: Sequence[float]) -> Concurrency:
    """Return the width and the critical path of ``groups``, which take ``seconds`` on the device.

    A group's depth is the most groups that must run one after the other before it; groups of one
    depth do not depend on each other. Raises ConfigError if ``seconds`` are not one per group, or
    if a group reads a value that a later one writes.
    """
    if len(seconds) != len(groups):
        raise ConfigError(f"seconds must be one per group, got {len(seconds)} for {len(groups)}.")
    depths: list[int] = []
    ends_s: list[float] = []
    for waits_for, seconds_here in zip(_dependences(program, groups), seconds, strict=True):
        depths.append(1 + max((depths[group] for group in waits_for), default=0))
        ends_s.append(seconds_here + max((ends_s[group] for group in waits_for), default=0.0))
    critical_path = max(depths, default=0)
    return Concurrency(
        num_groups=len(groups),
        critical_path=critical_path,
        mean_width=len(groups) / critical_path if groups else 0.0,
        max_width=max(Counter(depths).values(), default=0),
        critical_s=max(ends_s, default=0.0),
    )


def _dependences(program: Program, groups: Groups) -> Iterator[set[int]]:
    """Yield for each group the positions of the groups whose values it reads."""
    group_of = group_indices(program, groups)
    writer = {
        value: index
        for index, operator in enumerate(program.operators)
        for value in operator.outputs
    }
    for position, group in enumerate(groups):
        inputs = (value for index in group for value in program.operators[index].inputs)
        waits_for = {group_of[writer[value]] for value in inputs if value in writer} - {position}
        if any(earlier > position for earlier in waits_for):
            raise ConfigError(
                f"groups must be in an order in which they can run, but group {position} reads a "
                f"value that group {max(waits_for)} writes."
            )
        yield waits_for


_NAMES_SHOWN = 3


def phase_estimate(result: PhaseRun, *, events: bool) -> PhaseEstimate:
    """Return the phase of ``result``, run at one point, with all its groups.

    Energies, operations and bytes are of all executions and devices, powers of one device.
    """
    phase, settled, where = result.plan.phase, result.settled, result.where
    sequence = result.plan.table.sequence
    groups = _Groups(result).estimates(events=events)
    energy = EnergySplit.total(group.energy for group in groups)
    latency_s = sum(group.elapsed_s for group in groups)
    device_s = settled.device_s[0, sequence]
    throttled_s = float(device_s[settled.throttled[0, sequence]].sum()) * phase.count
    waited_s = float(result.wait_s[0].sum()) * phase.count * where.num_devices
    units_s, memory_s = _at_peak_s(groups, where.processor)
    in_use = latency_s * where.num_devices
    return PhaseEstimate(
        phase=phase.phase,
        work=phase.work,
        latency_s=latency_s,
        roofline_s=sum(group.roofline_s for group in groups),
        energy=energy,
        power_w=energy.total_j / latency_s / where.num_devices,
        peak_power_w=min(float(settled.power_w[0].max()), float(where.cap_w[0])),
        throttled_fraction=min(1.0, throttled_s / latency_s),
        waiting_j=waited_s * float(result.waiting_w[0]),
        unit_share=min(1.0, units_s / in_use),
        memory_share=min(1.0, memory_s / in_use),
        groups=groups,
        memory=memory(phase.program, where.processor),
        concurrency=concurrency(phase.program, result.plan.groups, device_s.tolist()),
        events=summed(*(group.events for group in groups)) if events else (),
    )


def _at_peak_s(groups: Sequence[GroupEstimate], processor: Processor) -> tuple[float, float]:
    memory_b = sum(group.moved_b.get(processor.memory.name, 0.0) for group in groups)
    units_s = sum(
        flop / processor.peak_flop_per_s(pipe) for one in groups for pipe, flop in one.flop.items()
    )
    return units_s, memory_b / processor.memory.bandwidth_b_per_s


class _Groups:
    def __init__(self, result: PhaseRun) -> None:
        self._result, self._where = result, result.where
        self._runs = result.plan.phase.count
        self._waiting_w = float(result.waiting_w[0])
        self._found: dict[tuple[int, float], tuple[Event, ...]] = {}

    def estimates(self, *, events: bool) -> tuple[GroupEstimate, ...]:
        """Return one estimate per group, in the order in which they run."""
        plan = self._result.plan
        operators = plan.phase.program.operators
        elapsed, waits = self._result.elapsed_s[0].tolist(), self._result.wait_s[0].tolist()
        groups = []
        for index, row in enumerate(plan.table.sequence.tolist()):
            members = [operators[i] for i in plan.groups[index]]
            group = self._estimate(members, row, elapsed[index], waits[index])
            if events:
                found = self._events(members, row, group, waits[index])
                group = replace(group, events=found)
            groups.append(group)
        return tuple(groups)

    def _estimate(
        self, members: Sequence[Operator], row: int, elapsed_s: float, wait_s: float
    ) -> GroupEstimate:
        settled, costs, where = self._result.settled, self._result.costs, self._where
        main, runs = members[main_operator(members)], self._runs
        all_runs = runs * where.num_devices
        waiting_j = wait_s * self._waiting_w
        energy = EnergySplit(
            compute_j=float(settled.compute_j[0, row]),
            memory_j=float(settled.memory_j[0, row]),
            static_j=float(settled.static_j[0, row]) + waiting_j,
        )
        return GroupEstimate(
            name=_name(main, members),
            module=main.module,
            kind=main.kind,
            operators=tuple(operator.name for operator in members),
            count=1,
            flop={pipe: float(of[row]) * all_runs for pipe, of in costs.flop.items() if of[row]},
            moved_b={level: float(of[row]) * all_runs for level, of in costs.moved_b.items()},
            device_s=float(settled.device_s[0, row]) * runs,
            elapsed_s=elapsed_s * runs,
            roofline_s=float(costs.peak_s[row]) / float(where.overclock[0]) * runs,
            bound=self._bound(row, elapsed_s),
            clock_mhz=float(settled.clock_mhz[0, row]),
            power_w=float(settled.power_w[0, row]),
            energy=energy.times(all_runs),
        )

    def _bound(self, row: int, elapsed_s: float) -> Bound:
        """Return what sets the time: launching where most of it is not the kernel's own work."""
        settled = self._result.settled
        core_s, memory_s = settled.core_s[0, row], settled.memory_s[0, row]
        longer_s = max(core_s, memory_s)
        if settled.slowed[0, row] and elapsed_s < 2 * settled.device_s[0, row]:
            return "power"
        if elapsed_s - longer_s > longer_s:
            return "launch"
        return "compute" if core_s >= memory_s else "memory"

    def _work(
        self, members: Sequence[Operator], row: int, group: GroupEstimate, wait_s: float
    ) -> GroupWork:
        table, share, runs = self._result.plan.table, 1 / self._where.num_devices, self._runs
        settled = self._result.settled
        core_s, memory_s = float(settled.core_s[0, row]), float(settled.memory_s[0, row])
        needed_s = core_s + memory_s
        processor = self._where.processor
        costs, device_s = self._result.costs, self._result.settled.device_s[0, row]
        fixed_s = costs.fixed_s[row]
        busy_s = costs.fill[row] * (device_s - fixed_s) + FIXED_SHARE * fixed_s
        return GroupWork(
            kind=members[main_operator(members)].kind,
            operators=tuple(replace(one, pipe=pipe_on(one, processor)) for one in members),
            count=runs,
            read_b=float(table.read_b[row]) * runs,
            weight_b=float(table.weight_b[row]) * runs,
            written_b=float(table.written_b[row]) * runs,
            moved_b={level: moved_b * share for level, moved_b in group.moved_b.items()},
            device_s=group.device_s,
            wait_s=wait_s * runs,
            clock_mhz=group.clock_mhz,
            waiting_mhz=float(settled.waiting_mhz[0, row]),
            energy=group.energy.times(share),
            busy=float(costs.activity[row] * busy_s / device_s),
            core_share=core_s / needed_s if needed_s > 0 else 0.0,
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


def _name(main: Operator, members: Sequence[Operator]) -> str:
    names = [operator.name for operator in members]
    shown = " + ".join(names[:_NAMES_SHOWN])
    more = f" + {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{main.module}: {shown}{more}" if main.module else f"{shown}{more}"
