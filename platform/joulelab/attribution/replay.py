"""Replay: each distinct kernel of a program alone, over and over, as a workload to be measured.

Kernels are launched from graphs, so that no host is waited for. Parameters are read from several
buffers in turn that no cache holds together, as in a program whose weights exceed the cache; what
a kernel takes of the one before it is where that left it. Data are the run's (``torch_data.py``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from joulelab.attribution.pacing import Pause
from joulelab.attribution.profile import SPARSE_S, cost_name, rough_j, that_matter
from joulelab.attribution.traced import traced_program
from joulelab.core.configuration import KnobValue
from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.errors import ConfigError
from joulelab.tracing.kernels import kernel_of
from joulelab.tracing.program import ALL_REDUCE, LINKS_AWAKE
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.network import TorchWorkload
from joulelab.workloads.program import Program

if TYPE_CHECKING:  # it needs PyTorch at once
    from joulelab.attribution.torch_replay import TorchPlayer

_PLAYED_J = 3.0
"""Launches of about this energy are one execution of a kernel that a simulated GPU plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Replay the distinct kernels of a program.

    Attributes:
        program: Name of the workload or program.
        knobs: Its knobs as JSON: {"model": "tinyllama"}.
        phases: Its phases, with commas between; empty for all.
        known: Kernels that are not to be replayed, one a line.
        pauses: By kernel as JSON, the seconds without work after each launch and the SM clock in
            MHz at which they are counted. If there are any, no other kernel is replayed.
        tensor_parallel: GPUs that share the program, all of which launch the same kernels.
    """

    program: str = "llama"
    knobs: str = "{}"
    phases: str = ""
    known: str = ""
    pauses: str = "{}"
    tensor_parallel: int = 1


class Replay(Workload[ReplaySettings]):
    """Runs one distinct kernel per phase, and counts launches."""

    settings_type: ClassVar = ReplaySettings
    unit: ClassVar[str] = "launch"
    is_defined_by_settings: ClassVar[bool] = False

    def __init__(self, settings: ReplaySettings) -> None:
        super().__init__(settings)
        asked: Mapping[str, tuple[float, float]] = json.loads(settings.pauses)
        self._pauses = {name: Pause(*pair) for name, pair in asked.items()}
        self._player: TorchPlayer | None = None
        self._costs: Mapping[str, KernelCost] | None = None
        self._parameter_b = 0.0

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        names = self._known() if self._player is None else self._player.names()
        return tuple(filter(self._is_asked, names))

    @property
    def program(self) -> Workload[Any]:
        """The program whose kernels are replayed.

        Raises ConfigError if there is none of that name, or a knob is wrong.
        """
        knobs: Mapping[str, KnobValue] = json.loads(self.settings.knobs)
        return WORKLOADS[self.settings.program].from_knobs(knobs)

    @property
    def records(self) -> ReplaySettings:
        """What tells which calls are recorded, whatever pauses lie between them."""
        return replace(self.settings, pauses="{}")

    def released(self) -> "TorchPlayer | None":
        """Return the recorded calls, to be replayed by another; forget them."""
        player, self._player = self._player, None
        return player

    @override
    def take_over(self, other: Workload[Any]) -> None:
        """Record the calls of a program that is prepared already, or take those recorded."""
        if isinstance(other, Replay) and other.records == self.records:
            self._player = other.released()
            return
        program = self.program
        is_that = type(other) is type(program) and other.settings == program.settings
        if is_that and _is_prepared(other):
            self._record(other)

    @override
    def prepare(self) -> None:
        if self._player is None:
            program = self.program
            program.gpu_uuid = self.gpu_uuid
            program.prepare()
            try:
                self._record(program)
            finally:
                program.close()

    @override
    def run(self, phase: str) -> float:
        if self._player is None:
            raise ConfigError("A replay must be prepared before it runs.")
        return float(self._player.launch(phase, self._pauses.get(phase)))

    @override
    def close(self) -> None:
        player = self.released()
        if player is not None:
            player.close()

    @override
    def cost(self) -> WorkloadCost:
        known = self._known()
        phases = tuple(self._launches(name, known[name]) for name in known if self._is_asked(name))
        resident_b = self._parameter_b + max((cost.dram_b for cost in known.values()), default=0.0)
        return WorkloadCost(unit=self.unit, phases=phases, resident_b=resident_b)

    def _launches(self, name: str, cost: KernelCost) -> PhaseCost:
        is_sparse = name == LINKS_AWAKE
        launches = 3 if is_sparse else max(1, round(_PLAYED_J / rough_j(cost)))
        pause = self._pauses.get(name)
        pause_s = SPARSE_S if is_sparse else 0.0 if pause is None else pause.duration_s
        return PhaseCost(
            phase=name,
            work=float(launches),
            kernels=(replace(cost, count=launches),),
            wait_s=launches * pause_s,
            num_graphs=1,
            parameter_b=self._parameter_b,
            num_devices=self.settings.tensor_parallel,
        )

    def _record(self, program: Workload[Any]) -> None:
        from joulelab.attribution.torch_replay import TorchPlayer

        self._player = TorchPlayer(program, self._chosen, self._skipped)

    def _known(self) -> Mapping[str, KernelCost]:
        """Return the distinct kernels of the traced program that matter."""
        if self._costs is None:
            costs: dict[str, KernelCost] = {}
            joules: dict[str, dict[str, float]] = {}
            for phase in traced_program(self.program):
                if not self._chosen(phase.phase):
                    continue
                self._parameter_b = max(self._parameter_b, phase.program.parameter_b)
                found = joules.setdefault(phase.phase, {})
                for operator in phase.program.operators:
                    cost = kernel_of(operator)
                    name = cost_name(operator, cost)
                    costs[name] = cost
                    found[name] = found.get(name, 0.0) + rough_j(cost)
            matter = that_matter(joules.values())
            asked = {name: costs[name] for name in matter}
            if sums := [cost for cost in costs.values() if cost.name == ALL_REDUCE]:
                # First, at the warmth of the idle window.
                asked = {LINKS_AWAKE: min(sums, key=lambda cost: cost.dram_b), **asked}
            self._costs = {n: cost for n, cost in asked.items() if n not in self._skipped}
        return self._costs

    def _is_asked(self, name: str) -> bool:
        return not self._pauses or name in self._pauses

    @property
    def _skipped(self) -> frozenset[str]:
        return frozenset(self.settings.known.splitlines())

    def _chosen(self, phase: str) -> bool:
        phases = self.settings.phases
        return not phases or phase in phases.split(",")


def _is_prepared(workload: Workload[Any]) -> bool:
    """Whether it runs in this process; on simulated GPUs its cost is played instead."""
    if isinstance(workload, Program):
        return workload.call is not None
    return isinstance(workload, TorchWorkload) and bool(workload.prepared_programs)
