"""A workload that launches one kernel again and again."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeVar

from typing_extensions import override

from joulelab.core.cost import Data, PhaseCost, WorkloadCost
from joulelab.errors import ConfigError
from joulelab.workloads.base import Workload
from joulelab.workloads.knobs import require_choice

_SEED = 0


class LoopSettings(Protocol):
    """What the settings of a loop say about it."""

    @property
    def phase(self) -> str:
        """Name of the only phase."""
        ...

    @property
    def precision(self) -> str:
        """Number format of the operands."""
        ...

    @property
    def data(self) -> Data:
        """What the operands hold."""
        ...

    @property
    def num_launches(self) -> int:
        """Launches in one repeat."""
        ...

    @property
    def work_per_launch(self) -> float:
        """Work of one launch, in the workload's unit."""
        ...

    @property
    def resident_b(self) -> int:
        """Bytes of all operands."""
        ...


Settings = TypeVar("Settings", bound=LoopSettings)


class LaunchLoop(Workload[Settings]):
    """Launches one kernel :attr:`LoopSettings.num_launches` times per repeat.

    A repeat is long enough that the launches, which are asynchronous, hide behind the kernels.
    A subclass makes the operands and the launch.
    """

    name: ClassVar[str]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._launch: Callable[[], object] | None = None

    @abstractmethod
    def program(self, device: str) -> Callable[[], object]:
        """Make the operands on ``device`` and return the launch."""

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return (self.settings.phase,)

    @override
    def prepare(self) -> None:
        from joulelab.workloads import accelerator

        device = accelerator.select_device()
        accelerator.require_precision(self.settings.precision, device)
        accelerator.require_memory(self.settings.resident_b, device, self.name)
        with accelerator.memory_errors(self.name), accelerator.seeded(_SEED, device):
            self._launch = self.program(str(device))

    @override
    def run(self, phase: str) -> float:
        from joulelab.workloads import accelerator

        require_choice("phase", phase, self.phases)
        if self._launch is None:
            raise ConfigError(f"{self.name} must be prepared before it is run.")
        with accelerator.memory_errors(self.name), accelerator.computing(self.settings.precision):
            for _ in range(self.settings.num_launches):
                self._launch()
            accelerator.synchronize()
        return self._work

    @override
    def close(self) -> None:
        if self._launch is not None:
            from joulelab.workloads import accelerator

            self._launch = None
            accelerator.release_memory()

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.estimator.graph.kernels import merged, repeated
        from joulelab.estimator.tracing.trace import fake_tensors, trace

        settings = self.settings
        with fake_tensors():
            kernels = trace(self.program("cpu"), tf32_matmul=settings.precision == "tf32")
        phase = PhaseCost(
            phase=settings.phase,
            work=self._work,
            kernels=merged(repeated(kernels, settings.num_launches)),
        )
        return WorkloadCost(
            unit=self.unit,
            phases=(phase,),
            resident_b=float(settings.resident_b),
            data=settings.data,
        )

    @property
    def _work(self) -> float:
        return self.settings.work_per_launch * self.settings.num_launches
