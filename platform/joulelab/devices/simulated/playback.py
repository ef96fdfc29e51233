"""A program as it runs on a device that exists only in arithmetic: its cost, played."""

from math import ceil
from typing import Any

from typing_extensions import override

from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.devices.simulated.machine import Machine
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.errors import ConfigError, DeviceError
from joulelab.workloads.base import Workload
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.program import Program

RUN_S = 0.05
"""Shorter executions are batched until a run lasts about this long."""


class PlayedWorkload(Workload[Any]):
    """A stand-in that plays the cost of a workload.

    A run is one execution of the phase, or as many as fill some 50 ms, so that a program of
    microseconds does not cost more to simulate than to run; the work returned counts them all.
    """

    def __init__(self, machine: Machine, workload: Workload[Any]) -> None:
        super().__init__(workload.settings)
        self.unit = workload.unit  # type: ignore[misc]  # as its original
        self._machine = machine
        self._workload = workload
        self._phases: dict[str, tuple[PhaseCost, PhaseModel]] | None = None

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return self._workload.phases

    @override
    def prepare(self) -> None:
        cost = self.cost()
        self._machine.hold_memory(cost.resident_b)
        try:
            models = {p.phase: (p, self._machine.model_of(p, cost.data)) for p in cost.phases}
        except (ConfigError, DeviceError):
            self._machine.hold_memory(0)
            raise
        self._phases = models

    @override
    def run(self, phase: str) -> float:
        if self._phases is None:
            raise ConfigError(f"{type(self._workload).__name__} must be prepared before it runs.")
        if phase not in self._phases:
            raise ConfigError(f"phase must be one of {self.phases}, got {phase!r}.")
        cost, model = self._phases[phase]
        executions = max(1, ceil(RUN_S / self._machine.duration_s(model) - 1e-9))
        self._machine.execute(model, executions)
        return executions * cost.work

    @override
    def close(self) -> None:
        if self._phases is not None:
            self._machine.hold_memory(0)
            self._phases = None

    @override
    def cost(self) -> WorkloadCost:
        if isinstance(self._workload, Program):  # counts nothing, and may be another next time
            return self._workload.cost()
        return cached_cost(self._workload)
