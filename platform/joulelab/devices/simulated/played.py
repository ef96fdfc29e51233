"""Programs as simulated boards play them: what they cost, and no more."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from typing_extensions import override

from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.devices.simulated.machine import Machine
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.errors import ConfigError, DeviceError
from joulelab.workloads.base import Workload
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.ranks import StandIn, shares_layers

RUN_S = 0.05
"""Shorter executions are batched until a run lasts about this long."""
_Playing = Sequence[tuple[Machine, PhaseModel]]


class PlayedWorkload(StandIn):
    """A stand-in that plays the cost of a workload on one board, or on several of one clock.

    A run is one execution of the phase, or as many as fill some 50 ms, so that a program of
    microseconds does not cost more to simulate than to run; the work returned counts them all.
    Boards that share a program wait for the slowest busily, as the kernels of NCCL do; what they
    send each other is in its cost.
    """

    def __init__(self, machines: Sequence[Machine], workload: Workload[Any]) -> None:
        super().__init__(workload)
        self._machines = machines
        self._copies = 1 if shares_layers(workload, len(machines)) else len(machines)
        self._phases: dict[str, tuple[PhaseCost, _Playing]] | None = None

    @override
    def prepare(self) -> None:
        cost = self.cost()
        try:
            for machine in self._machines:
                machine.hold_memory(cost.resident_b)
            self._phases = {
                phase.phase: (phase, self._models(cost, phase)) for phase in cost.phases
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
        cost, playing = self._phases[phase]
        slowest, model = max(playing, key=lambda each: each[0].duration_s(each[1]))
        others = [each for each in playing if each[0] is not slowest]
        executions = max(1, ceil(RUN_S / slowest.duration_s(model) - 1e-9))
        for machine, same in others:
            machine.begin(same)
        slowest.execute(model, executions)
        for machine, _ in others:
            machine.let_end()
        return executions * cost.work * self._copies

    @override
    def close(self) -> None:
        if self._phases is not None:
            self._free()
            self._phases = None

    @override
    def cost(self) -> WorkloadCost:
        return cached_cost(self._workload)

    def _models(self, cost: WorkloadCost, phase: PhaseCost) -> _Playing:
        return [(machine, machine.model_of(phase, cost.data)) for machine in self._machines]

    def _free(self) -> None:
        for machine in self._machines:
            machine.hold_memory(0)
