"""Programs as simulated boards play them: what they cost, and no more."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil, floor
from typing import Any

from typing_extensions import override

from joulelab.core.cost import Data, PhaseCost, WorkloadCost
from joulelab.core.energy import EnergyWindow
from joulelab.devices.simulated.machine import RUN_S, Machine
from joulelab.errors import ConfigError, DeviceError
from joulelab.workloads.base import LONGEST_RUN_S, Workload
from joulelab.workloads.disk_cache import lean_cost
from joulelab.workloads.ranks import StandIn, shares_layers
from joulelab.workloads.sums import WaitLog

_LEAST_WAIT = 1e-6
"""Of an execution: boards that are done so close to each other wait for nobody."""


class PlayedWorkload(StandIn):
    """A stand-in that plays the cost of a workload on one board, or on several of one clock.

    A run is one execution of the phase, or as many as fill :data:`RUN_S`, so that a program of
    microseconds does not cost more to simulate than to run, or such parts of one as it consists of;
    the work returned counts them all.
    Boards that share a program wait for the slowest in its sums, whose kernels keep a few units
    busy; what they send each other is in its cost. Boards with a copy each stay busy.
    """

    def __init__(self, machines: Sequence[Machine], workload: Workload[Any]) -> None:
        super().__init__(workload)
        self._machines = machines
        self._is_shared = shares_layers(workload, len(machines))
        self._phases: dict[str, _Phase] | None = None
        self._waits = WaitLog()

    @override
    def prepare(self) -> None:
        cost = self.cost()
        try:
            for machine in self._machines:
                machine.hold_memory(cost.resident_b if self._workload.uses_gpu else None)
            self._phases = {
                phase.phase: _Phase(self._machines, phase, cost.data) for phase in cost.phases
            }
        except (ConfigError, DeviceError):
            self._free()
            raise

    @override
    def run(self, phase: str) -> float:
        if self._phases is None:
            raise ConfigError(f"{type(self._workload).__name__} must be prepared before it runs.")
        if phase not in self._phases:
            raise ConfigError(f"phase must be one of {self.phases}, got {phase!r}.")
        playing, copies = self._phases[phase], 1 if self._is_shared else len(self._machines)
        own_s = playing.durations_s()
        longest_s = max(own_s)
        executions = _executions(longest_s, self._workload.parts(phase))
        work = executions * playing.work * copies
        clock = self._machines[0].clock
        start_s = clock.now_s()
        playing.execute(executions, own_s, waits=self._is_shared)
        if self._is_shared:
            waited_s = [executions * (longest_s - each_s) for each_s in own_s]
            self._waits.add(start_s, clock.now_s(), work, waited_s)
        return work

    @override
    def figures(self, windows: Sequence[EnergyWindow]) -> Mapping[str, float]:
        return self._waits.figures(windows)

    @override
    def close(self) -> None:
        if self._phases is not None:
            self._free()
            self._phases = None

    @override
    def cost(self) -> WorkloadCost:
        return lean_cost(self._workload)

    def _free(self) -> None:
        for machine in self._machines:
            machine.hold_memory(None)


def _executions(execution_s: float, parts: int) -> float:
    """Return how many executions are a run, of ``parts`` equal parts each."""
    if execution_s > LONGEST_RUN_S:
        return max(1, floor(parts * LONGEST_RUN_S / execution_s)) / parts
    return max(1, ceil(RUN_S / execution_s - 1e-9))


class _Phase:
    """A phase on all boards."""

    def __init__(self, machines: Sequence[Machine], cost: PhaseCost, data: Data) -> None:
        self._machines = machines
        self._models = [machine.model_of(cost, data) for machine in machines]
        self.work = cost.work
        # One object for each time, so that boards go on with what they do from run to run.
        self._until = cache(
            lambda board, until_s: machines[board].model_of(cost, data, until_s=until_s)
        )

    def durations_s(self) -> list[float]:
        """Return what an execution takes each board alone, at its present clocks."""
        pairs = zip(self._machines, self._models, strict=True)
        return [machine.duration_s(model) for machine, model in pairs]

    def execute(self, executions: float, own_s: Sequence[float], *, waits: bool) -> None:
        """Execute it on all boards at the pace of the slowest, given what each alone takes."""
        slowest = max(range(len(own_s)), key=own_s.__getitem__)
        others = [board for board in range(len(own_s)) if board != slowest]
        for board in others:
            has_to_wait = waits and own_s[board] < (1 - _LEAST_WAIT) * own_s[slowest]
            model = self._until(board, own_s[slowest]) if has_to_wait else self._models[board]
            self._machines[board].begin(model)
        self._machines[slowest].execute(self._models[slowest], executions)
        for board in others:
            self._machines[board].let_end()
