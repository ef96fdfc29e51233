"""A program as it runs on a device that exists only in arithmetic: its cost, played."""

from math import ceil
from typing import Any, Protocol

from typing_extensions import override

from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.errors import ConfigError, DeviceError
from joulelab.workloads.base import Workload
from joulelab.workloads.cost_cache import cached_cost

RUN_S = 0.05
"""Shorter executions are batched until a run lasts about this long."""


class Player(Protocol):
    """The device under a played program."""

    def model(self, phase: PhaseCost, cost: WorkloadCost) -> PhaseModel:
        """Return what ``phase`` takes of this device."""
        ...

    def hold_memory(self, resident_b: float) -> None:
        """Open a context that holds ``resident_b`` bytes; 0 closes it."""
        ...

    def duration_s(self, model: PhaseModel) -> float:
        """Return the time of one execution of ``model`` at the present clock."""
        ...

    def execute(self, model: PhaseModel, executions: int) -> None:
        """Execute ``model`` so many times; device time passes."""
        ...


class PlayedWorkload(Workload[Any]):
    """A stand-in that plays the cost of a workload.

    A run is one execution of the phase, or as many as fill some 50 ms, so that a program of
    microseconds does not cost more to simulate than to run; the work returned counts them all.

    Args:
        player: The device.
        workload: The program that it stands for.
    """

    def __init__(self, player: Player, workload: Workload[Any]) -> None:
        super().__init__(workload.settings)
        self.unit = workload.unit  # type: ignore[misc]  # as its original
        self._player = player
        self._workload = workload
        self._phases: dict[str, tuple[PhaseCost, PhaseModel]] | None = None

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return self._workload.phases

    @override
    def prepare(self) -> None:
        cost = self.cost()
        self._player.hold_memory(cost.resident_b)
        try:
            models = {p.phase: (p, self._player.model(p, cost)) for p in cost.phases}
        except (ConfigError, DeviceError):
            self._player.hold_memory(0)
            raise
        self._phases = models

    @override
    def run(self, phase: str) -> float:
        if self._phases is None:
            raise ConfigError(f"{type(self._workload).__name__} must be prepared before it runs.")
        if phase not in self._phases:
            raise ConfigError(f"phase must be one of {self.phases}, got {phase!r}.")
        cost, model = self._phases[phase]
        executions = max(1, ceil(RUN_S / self._player.duration_s(model) - 1e-9))
        self._player.execute(model, executions)
        return executions * cost.work

    @override
    def close(self) -> None:
        if self._phases is not None:
            self._player.hold_memory(0)
            self._phases = None

    @override
    def cost(self) -> WorkloadCost:
        return cached_cost(self._workload)
