"""A study of this process: what it measures, on which GPUs, and where its results go."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from typing_extensions import override

from joulelab.analysis.search_wording import score_words
from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceAddress
from joulelab.core.procedure import Procedure
from joulelab.core.quality import Direction
from joulelab.devices.choice import find_default, find_visible, is_hardware
from joulelab.errors import ConfigError, DeviceNotFoundError, MeasurementError
from joulelab.guard.inquiry import holders
from joulelab.sampling.cuda_device import computing_on, current_uuid
from joulelab.searching.base import MakeStrategy
from joulelab.searching.scores import Scores, score_space
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies import STRATEGIES
from joulelab.study.abstract_lab import AbstractLab, check_guard_socket
from joulelab.study.gpu import StudyGpu, grouped, of_product, require_count, require_one_product
from joulelab.study.ledger import StudySummary
from joulelab.study.pool import LocalPool
from joulelab.study.progress import announced
from joulelab.study.worker import FoundT, GpuWorker, WorkerSettings
from joulelab.tracking.addresses import connectable
from joulelab.tracking.durable import check_file_name, check_folder
from joulelab.tracking.mlflow_store import usable_uri
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.program import Cost, Program, Quality, Work, workload_type


class StudyWorkload:
    """A program as measurements know it, with its ``name`` and ``settings``.

    It is a name (of a workload, ``"file.py:attribute"``, ``"module:attribute"``), a callable, a
    :class:`~joulelab.workloads.base.Workload`, or the settings of one. Knobs that are left out take
    their default; options are as in :func:`~joulelab.workloads.program.workload_type`. Raises
    ConfigError if it cannot be run as asked for.
    """

    def __init__(
        self,
        program: object,
        knobs: Mapping[str, KnobValue] | None = None,
        *,
        unit: str | None = None,
        work: Work | None = None,
        cost: Cost | Callable[..., Cost] | None = None,
        quality: Quality | None = None,
        quality_direction: Direction | None = None,
    ) -> None:
        options: dict[str, Any] = {"unit": unit, "work": work, "cost": cost}
        options |= {"quality": quality, "quality_direction": quality_direction}
        given: dict[str, Any] = {}
        if is_dataclass(program) and not (callable(program) or isinstance(program, Workload)):
            given, program = asdict(program), WORKLOADS.name_of(program)
        elif isinstance(program, str):
            program = WORKLOADS.known_as(program)
        self._program = program
        if isinstance(program, str):
            self.name, kind = program, WORKLOADS[program]
            if any(value is not None for value in options.values()):
                kind = self._with_options(kind, options)
        else:
            if isinstance(program, Workload):
                given, program = asdict(program.settings), type(program)
            self.name, kind = _name_of(program), workload_type(program, **options)
            WORKLOADS.programs.hold(self.name, kind)
        self.settings: Any = kind.from_knobs({**given, **(knobs or {})}).settings

    def check(self, gpus: tuple[StudyGpu, ...]) -> None:
        """Refuse to move what cannot be moved from GPU to GPU.

        Raises ConfigError if several real GPUs are to run a function or an object.
        """
        movable = isinstance(self._program, str | type | Workload)
        if len(gpus) > 1 and not movable and is_hardware(gpus[0].address):
            raise ConfigError(
                f"{self.name} is a function or an object, which may hold what lies on one GPU, but "
                f"{len(gpus)} are to run it; give a class, of which one is made on each, or a name."
            )

    def _with_options(
        self, kind: type[Workload[Any]], options: Mapping[str, Any]
    ) -> type[Workload[Any]]:
        if not issubclass(kind, Program):
            raise ConfigError(f"{self.name} is a workload: it says unit, work, cost and quality.")
        kind = workload_type(kind.target[0], **options)
        WORKLOADS.programs.hold(self.name, kind)
        return kind


def _name_of(program: object) -> str:
    """Return what results call an object; no process but this one can find it by that."""
    named = program if hasattr(program, "__qualname__") else type(program)
    module, name = getattr(named, "__module__", ""), getattr(named, "__qualname__", "program")
    if module == "__main__":
        import __main__

        module = Path(getattr(__main__, "__file__", "__main__")).stem
    return f"{module}.{name}"


@dataclass(frozen=True, kw_only=True)
class Lab(AbstractLab[StudyGpu]):
    """GPUs that this process measures on, one after another, and a place for results.

    Attributes:
        device: How to reach the GPUs: ``"auto"`` takes NVML, else DCGM, else ``nvidia-smi``;
            ``"simulated"`` needs no GPU, ``"replay"`` plays recorded ones.
        uuids: Which GPUs. By default PyTorch's current one, else the first ``num_gpus`` that this
            process may use (``CUDA_VISIBLE_DEVICES``), of which those that others have on loan
            come last.
        num_gpus: How many, where ``uuids`` does not say which; of each product that is simulated.
            By default those of one trial.
        gpus_per_trial: How many of them, of one product, run a trial together.
        gpu: Product in the catalogue that simulated GPUs imitate, e.g. ``"h200_sxm"``, or several
            of them; for ``"simulated"`` alone. By default ``"h200_sxm"``, or with a ``store``
            those that lie there.
        gpu_product: Part of the name of the products to choose from, e.g. ``"a100"``; by default
            all that are there.
        store: Folder with the state of simulated GPUs, or with the recordings to replay.
        study: Name of the study. Say the name of an earlier one to go on with it; by default a
            new one named by the time.
        results_dir: Folder for the results of all studies.
        tracking_uri: MLflow store that results are delivered to as they are measured:
            ``"sqlite:////absolute/path.db"`` or the address of a server; by default none.
        observe_only: Call no setter of the GPU, ever: measure at the driver's own clocks.
        guard_socket: Where the clock guard listens; by default the system's, or else one that is
            started for it.
        procedure: How each measurement is made.
        calibration: File of one of the GPUs that ``joulelab calibrate --board`` wrote, or
            ``models:/NAME`` that it registered in ``tracking_uri``: searches begin from what it
            says, and warm-ups wait for its sensors where they are late.
        progress: Whether to show on the standard error how far it is.
    """

    device: str = "auto"
    uuids: tuple[str, ...] = ()
    num_gpus: int | None = None
    gpus_per_trial: int = 1
    gpu: str | Sequence[str] | None = None
    gpu_product: str | None = None
    store: str | Path | None = None
    study: str | None = None
    results_dir: str | Path = "~/joulelab-results"
    tracking_uri: str | None = None
    observe_only: bool = False
    guard_socket: Path | None = None
    procedure: Procedure = field(default_factory=Procedure)
    calibration: Path | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if self.study is not None:
            check_file_name("study", self.study)
        if self.num_gpus is not None and self.num_gpus < 1:
            raise ConfigError(f"num_gpus must be at least 1, got {self.num_gpus}.")
        require_count(self.gpus_per_trial, self.num_gpus)
        if self.gpu is not None and self.device != "simulated":
            raise ConfigError(
                f"gpu names a product to simulate, got {self.gpu!r} with device {self.device!r}; "
                "leave it out, or take the device 'simulated'."
            )

    @override
    @contextmanager
    def open(self, *_workloads: str, mixed: bool = False) -> Generator[tuple[StudyGpu, ...]]:
        check_folder(self.root)
        if self.tracking_uri is not None:
            usable_uri(self.tracking_uri)
        check_guard_socket(self.guard_socket)
        gpus = tuple(map(StudyGpu.of, self._addresses()))
        if not mixed:
            require_one_product(gpus)
        self._warn_of_guards(gpus)
        yield grouped(gpus, self.gpus_per_trial)

    @override
    def score(
        self, space: SearchSpace, gpu: StudyGpu, folder: Path, *, metric: str | None = None
    ) -> Scores:
        console = self.console()
        with announced("Scoring what is put out", console), computing_on(gpu.uuid):
            scores = score_space(space, metric=metric)
        console.print(score_words(space, scores), soft_wrap=True, highlight=False, markup=False)
        return scores

    @override
    def work_on(
        self, gpu: StudyGpu, how: WorkerSettings, work: Callable[[GpuWorker], FoundT]
    ) -> FoundT:
        with closing(GpuWorker(gpu.address, how, partners=gpu.partners)) as worker:
            return work(worker)

    @override
    def strategy(self, name: str) -> MakeStrategy:
        return STRATEGIES[name]

    @property
    @override
    def store_uri(self) -> str | None:
        return None if self.tracking_uri is None else connectable(self.tracking_uri)

    @override
    def pool(self, gpus: Sequence[StudyGpu], how: WorkerSettings) -> LocalPool:
        return LocalPool(gpus, how)

    @override
    def require_some(self, summary: StudySummary) -> None:
        """Raise MeasurementError if not a single trial could be measured; says why."""
        if summary.failed and len(summary.failed) == summary.num_trials:
            raise MeasurementError(f"Nothing was measured. {next(iter(summary.failed.values()))}")

    @override
    def console(self) -> Console:
        return Console(stderr=True, quiet=not self.progress)

    @property
    def _num_gpus(self) -> int:
        return self.num_gpus or self.gpus_per_trial

    def _addresses(self) -> list[DeviceAddress]:
        store = None if self.store is None else str(Path(self.store).expanduser().absolute())
        there = {address.uuid: address for address in self._there(store)}
        wanted = self.uuids or _in_use(there) or self._free_first(there)
        if not self.uuids and self.gpu is None:
            wanted = wanted[: self._num_gpus]
        missing = [uuid for uuid in wanted if uuid not in there]
        if missing or (not self.uuids and len(there) < self._num_gpus):
            raise DeviceNotFoundError(
                f"{', '.join(missing) or f'{self._num_gpus} GPUs'} must be among the GPUs that "
                f"this process may use: {', '.join(there)}."
            )
        return [there[uuid] for uuid in wanted]

    def _free_first(self, there: Mapping[str, DeviceAddress]) -> tuple[str, ...]:
        """Return GPUs in the order of choice; guards are asked only where there is a choice."""
        is_choice = self.gpu is None and self._num_gpus < len(there)
        held = holders(tuple(there.values()), self.guard_socket) if is_choice else {}
        return tuple(sorted(there, key=held.__contains__))

    def _there(self, store: str | None) -> Sequence[DeviceAddress]:
        """Return what there is to choose from."""
        if self.gpu is not None:
            from joulelab.devices.simulated import fleet

            found = fleet(self.gpu, self._num_gpus, store)
        elif self.uuids or self.gpu_product:
            found = find_visible(self.device, store)
        else:
            found = find_default(self.device, store, num_simulated=self._num_gpus)
        if self.gpu_product is None:
            return found
        known = [StudyGpu.of(address) for address in found]
        return [gpu.address for gpu in of_product(known, self.gpu_product)]


def _in_use(there: dict[str, DeviceAddress]) -> tuple[str, ...]:
    """Return the GPUs with the one first that PyTorch works on; nothing if there is none."""
    current = current_uuid()
    if current is None or current not in there or not is_hardware(there[current]):
        return ()
    return (current, *(uuid for uuid in there if uuid != current))
