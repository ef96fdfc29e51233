"""Workloads that run programs of PyTorch phase by phase, above all a library's network."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from typing_extensions import override

from joulelab.core.cost import Request, WorkloadCost
from joulelab.core.number_format import NetworkPrecision
from joulelab.core.process import synchronise
from joulelab.errors import ConfigError
from joulelab.tracing.program import ProgramPhase
from joulelab.workloads.base import Workload, check_knobs, require_choice
from joulelab.workloads.kept_networks import KeptNetworks
from joulelab.workloads.read_ahead import FileReading, Reading

_SEED = 0
Programs = Mapping[str, Callable[[], object]]
"""What one execution of each phase runs; nothing in it waits for the device."""


class TorchSettings(Protocol):
    """What the settings of every program of PyTorch say."""

    @property
    def precision(self) -> str:
        """Number format of products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """What the settings of every network say.

    Attributes:
        weights: Folder or hub id of a checkpoint of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and products; int8, int4 and fp8 store linear layers
            so and keep the rest in 16 bits. tf32 is stored as fp32.
        batch: Samples computed side by side.
    """

    weights: str | None = None
    precision: NetworkPrecision = "bf16"
    batch: int = 1

    def __post_init__(self) -> None:
        check_knobs(self)


Computing = TypeVar("Computing", bound=TorchSettings)
Settings = TypeVar("Settings", bound=NetworkSettings)


class TorchWorkload(Workload[Computing]):
    """Runs the programs of its phases, each as often as :meth:`executions` says."""

    training_phases: ClassVar[tuple[str, ...]] = ()
    """Phases that train. Their programs only go forward and return the loss; the rest of a step
    of AdamW is added to them, when they are run and when their cost is counted."""

    def __init__(self, settings: Computing) -> None:
        super().__init__(settings)
        self.prepared_network: Any = None
        """The network that is run, a ``torch.nn.Module``; ``None`` without one."""
        self.prepared_programs: Programs = {}
        """What phases run; empty unless it is prepared."""

    @abstractmethod
    def work(self, phase: str) -> float:
        """Units of work that one execution of ``phase`` does."""

    @abstractmethod
    def executions(self, phase: str) -> int:
        """How often one run executes ``phase``; more than once where one is very short."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, for messages."""

    @property
    @override
    def request(self) -> Request:
        """One execution of every phase."""
        units = {phase: self.work(phase) for phase in self.phases}
        return Request(units=units, size=units[self.phases[0]])

    @override
    def run(self, phase: str) -> float:
        return self.execute(phase, self.executions(phase))

    def execute(self, phase: str, times: int) -> float:
        """Execute a phase so many times, device synchronised; return the work done."""
        from joulelab.workloads import accelerator

        require_choice("phase", phase, self.phases)
        if not self.prepared_programs:
            raise ConfigError(f"{type(self).__name__.lower()} must be prepared before it is run.")
        precision, gradients = self.settings.precision, phase in self.training_phases
        with (
            accelerator.memory_errors(self.title),
            accelerator.computing(precision, gradients=gradients),
        ):
            for _ in range(times):
                self.prepared_programs[phase]()
            synchronise()
        return times * self.work(phase)

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.tracing.kernels import cost_of

        return cost_of(self.unit, self.traced())

    @abstractmethod
    def traced(self) -> tuple[ProgramPhase, ...]:
        """Trace what a run executes of every phase, without memory; ConfigError if that fails."""

    @override
    def close(self) -> None:
        if self.prepared_programs or self.prepared_network is not None:
            from joulelab.workloads import accelerator

            self.prepared_network, self.prepared_programs = None, {}
            accelerator.release_memory()


class NetworkWorkload(TorchWorkload[Settings]):
    """Builds a network, then runs its phases.

    A subclass says how to build it (:meth:`network`), what its phases run (:meth:`programs`) and,
    unless it is the samples of a batch, what a phase's work is (:meth:`work`). The same
    :meth:`load` runs on a device and, on tensors without memory, to count :meth:`cost`. Workloads
    that differ in their inputs alone run the same network one after the other: it is not built
    again.
    """

    phases: tuple[str, ...] = ("forward",)
    input_knobs: ClassVar[frozenset[str]] = frozenset({"batch"})
    """Knobs that say what the network is given, and not what it is."""
    called: ClassVar[str] = ""
    """What it is in messages, a pattern of knobs; by default the name of the class."""
    samples_per_run: ClassVar[int] = 1
    """Samples that a run computes at the least, where a batch of fewer is very short."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.kept = KeptNetworks()

    @abstractmethod
    def network(self, device: Any) -> Any:
        """Build the network, a ``torch.nn.Module``, on ``device`` in its storage format."""

    @abstractmethod
    def programs(self, network: Any, device: Any) -> Programs:
        """Return what the phases run on ``network``, maybe quantised, with inputs beside it."""

    def load(self, device: Any) -> tuple[Any, Programs]:
        """Build the network and its inputs on ``device``; return it, and what its phases run."""
        network = self.network(device)
        return network, self.programs(network, device)

    @property
    def network_key(self) -> tuple[object, ...]:
        """What the network depends on: the workload, and its knobs but those of the inputs."""
        knobs = asdict(self.settings)
        return type(self), *((k, v) for k, v in knobs.items() if k not in self.input_knobs)

    @property
    def is_network_kept(self) -> bool:
        """Whether the network is the same after runs as before, and so may be run again."""
        return not self.training_phases

    @property
    @override
    def kept_b(self) -> int:
        return self.kept.size_b(but=self.network_key)

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def executions(self, phase: str) -> int:
        return max(self.samples_per_run // self.settings.batch, 1)

    def counting(self) -> AbstractContextManager[object]:
        """Return what is entered while the cost is counted, where shapes depend on values."""
        return nullcontext()

    @property
    @override
    def title(self) -> str:
        settings = self.settings
        name = self.called.format(**asdict(settings)) or type(self).__name__.lower()
        return f"{name} in {settings.precision} with batch {settings.batch}"

    @override
    def read_ahead(self) -> Reading | None:
        weights = self.settings.weights
        return None if weights is None else FileReading(weights)

    @override
    def take_over(self, other: Workload[Any]) -> None:
        if isinstance(other, type(self)) and self.is_network_kept:
            self.kept = other.kept.copy()
            self.prepared_network = self.kept.of(self.network_key)

    @override
    def close(self) -> None:
        self.kept = KeptNetworks()
        super().close()

    @override
    def prepare(self) -> None:
        from joulelab.workloads import accelerator

        device = accelerator.select_device()
        accelerator.require_precision(self.settings.precision, device)
        self.kept.prepare(self.network_key, lambda: self._prepare_on(device), device)

    def _prepare_on(self, device: Any) -> None:
        from joulelab.workloads import accelerator
        from joulelab.workloads.disk_cache import cached_cost

        with accelerator.memory_errors(self.title, lambda: cached_cost(self).resident_b):
            if self.prepared_network is None:
                key = self.network_key if self.is_network_kept else None
                self.prepared_network = self.kept.build(key, lambda: self._stored(device), device)
            with accelerator.seeded(_SEED, device):
                programs = self.programs(self.prepared_network, device)
            self.prepared_programs = self._training_where_due(self.prepared_network, programs)
        for phase in self.phases:  # loads the kernels
            self.run(phase)

    @override
    def traced(self) -> tuple[ProgramPhase, ...]:
        import torch

        from joulelab.tracing.trace import fake_tensors
        from joulelab.workloads import formats
        from joulelab.workloads.network_cost import traced_phase

        precision = self.settings.precision
        with fake_tensors(), self.counting():
            network, programs = self.load(torch.device("cpu"))
            formats.store_in(network, precision)
            once = [
                traced_phase(
                    phase,
                    programs[phase],
                    network=network,
                    precision=precision,
                    trains=phase in self.training_phases,
                )
                for phase in self.phases
            ]
        return tuple(self._executed(each) for each in once)

    def _executed(self, once: ProgramPhase) -> ProgramPhase:
        times = self.executions(once.phase)
        return replace(once, work=times * self.work(once.phase), count=times * once.count)

    def _stored(self, device: Any) -> Any:
        from joulelab.workloads import accelerator, formats

        with accelerator.seeded(_SEED, device):
            network = self.network(device)
            formats.store_in(network, self.settings.precision)
        return network

    def _training_where_due(self, network: Any, programs: Programs) -> Programs:
        if not self.training_phases:
            return programs
        from joulelab.tracing.trace import TrainingStep

        return {
            phase: TrainingStep(program, network=network)
            if phase in self.training_phases
            else program
            for phase, program in programs.items()
        }
