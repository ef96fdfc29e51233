"""Where a study runs, on what, and where its results go: the settings all experiments share."""

import os
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import ray
from rich.console import Console
from typing_extensions import override

from joulelab.analysis.search_wording import score_words
from joulelab.core.procedure import Procedure
from joulelab.devices import DEVICES
from joulelab.devices.choice import check_backend
from joulelab.errors import ConfigError, one_line
from joulelab.hardware import GPUS
from joulelab.searching.base import MakeStrategy
from joulelab.searching.scores import Scores
from joulelab.searching.space import SearchSpace
from joulelab.study.abstract_lab import AbstractLab, check_guard_socket
from joulelab.study.gpu import of_product, require_count, require_enough, require_one_product
from joulelab.study.ledger import StudySummary
from joulelab.study.progress import announced
from joulelab.study.search_queue import CheckTrial, Search, SearchQueue
from joulelab.study.worker import FoundT, GpuWorker, WorkerSettings
from joulelab.tracking.addresses import connectable, discreet, typed
from joulelab.tracking.durable import check_file_name, check_folder
from joulelab.tracking.mlflow_store import usable_uri
from joulelab.tracking.store import DEFAULT_RESULTS, ResultStore
from joulelab.tracking.study_lock import StudyLock, default_store
from joulelab.workloads import WORKLOADS
from joulelab.workloads.parcel import Parcel, pack
from joulelab_actors.gpu_actor import NAME_TIMEOUT_S, enlisted
from joulelab_actors.placement import Site, find_sites, grouped_sites, simulated_sites
from joulelab_actors.pool import RELEASE_S, Pool
from joulelab_actors.reservation import let_go, reserved
from joulelab_actors.scoring import score_beside
from joulelab_actors.session import Lifeline, connected

SCHEDULED_REPEATS = 5
"""Measurements of a configuration under a scheduler that does not stop it."""
SIMULATED_GPUS = 4
"""Of each kind, unless another number is asked for."""
MOST_GPUS = 1024
"""More simulated ones at once are a slip of the hand."""


@dataclass(frozen=True, kw_only=True)
class Laboratory(AbstractLab[Site]):
    """GPUs, the procedure, and a place for results.

    Attributes:
        device: How to reach the GPUs: nvml is real ones through NVIDIA's driver; dcgm and smi
            are fallbacks for it; auto takes the best of these on each node; simulated needs no
            GPU; replay plays recorded ones; or a plug-in's.
        gpu: Products in the catalogue that simulated GPUs imitate.
        gpu_product: Use GPUs of this product alone: a part of its name or of its key in the
            catalogue, e.g. a100; by default all, which only a sweep of clocks takes together.
        num_gpus: GPUs to use of each product; by default 4 simulated ones, or all real ones. Those
            that no other study has come first, and it is waited until there are so many.
        gpus_per_trial: GPUs of one machine and product that run a trial together: their energies
            are measured apart and added up. A program whose setting tensor_parallel is that number
            is shared by them, another runs a copy on each.
        store: Folder with the state of simulated GPUs, or with the recordings to replay.
        study: Name of the study. Say the name of an earlier one to go on with it; by default
            a new one named by the time.
        results_dir: Folder for the results of all studies, one that every node sees.
        tracking_uri: MLflow store; by default an embedded one in the results folder, unless that is
            on NFS or the like; "none" for none.
        observe_only: Call no setter of the GPU, ever: measure at the driver's own clocks.
        guard_socket: Where the nodes' clock guards listen; by default the system's, or else one
            that is started for it.
        trial_scheduler: Scheduler of Ray Tune for searches, e.g. asha or median_stopping_rule: a
            trial repeats its configuration up to five times, as long as it is among the better.
        dashboard: Serve Ray's dashboard, where this starts Ray. It reads GPUs and processes every
            few seconds beside the measurements.
        procedure: How each measurement is made.
        calibration: File of joulelab calibrate --board, or models:/NAME that it registered, from
            which searches begin.
    """

    device: str = "simulated"
    gpu: str | tuple[str, ...] = "h200_sxm"
    gpu_product: str | None = None
    num_gpus: int | None = None
    gpus_per_trial: int = 1
    store: Path | None = None
    study: str | None = None
    results_dir: Path = DEFAULT_RESULTS
    tracking_uri: str | None = None
    observe_only: bool = False
    guard_socket: Path | None = None
    trial_scheduler: str | None = None
    dashboard: bool = False
    procedure: Procedure = field(default_factory=Procedure)
    calibration: Path | None = None

    def __post_init__(self) -> None:
        check_backend(self.device)
        if self.study is not None:
            check_file_name("study", self.study)
        if self.num_gpus is not None and not 1 <= self.num_gpus <= MOST_GPUS:
            raise ConfigError(f"num_gpus must be within 1 and {MOST_GPUS}, got {self.num_gpus}.")
        require_count(self.gpus_per_trial, self.num_gpus)

    @override
    @contextmanager
    def open(self, *workloads: str, mixed: bool = False) -> Generator[tuple[Site, ...]]:
        """Take the study, if it is named, hold a connection to Ray, and yield the GPUs to use.

        Raises ConfigError also if a program cannot travel to the nodes, or results cannot be
        delivered, or are those of a study that is under way.
        """
        with ExitStack() as stack:
            self._check_places()
            self.programs(workloads)
            if self.study is not None:
                stack.enter_context(StudyLock(self.study_dir(self.study)))
                self._check_same_store(self.study)
            with announced(_beginning()):
                stack.enter_context(connected(dashboard=self.dashboard))
                found = self._sites(mixed)
            choice = reserved(
                found,
                self._num_simulated if self.device == "simulated" else self.num_gpus,
                study=self.study,
                guard_socket=self.guard_socket,
                report=self._report,
            )
            sites = grouped_sites(stack.enter_context(choice), self.gpus_per_trial)
            for host, fallback in {s.hostname: s.fallback for s in sites if s.fallback}.items():
                self._report(one_line(f"{host}: {fallback}"))
            self._warn_of_guards(sites)
            yield sites

    @override
    def pool(self, gpus: Sequence[Site], how: WorkerSettings) -> Pool:
        return Pool(gpus, how)

    @override
    def programs(self, workloads: Collection[str]) -> tuple[Parcel, ...]:
        return pack(WORKLOADS.programs, workloads)

    @override
    def queue(
        self, search: Search, check: CheckTrial, gpus: Sequence[Site], folder: Path
    ) -> SearchQueue:
        """Return the queue of a search whose trials Ray Tune starts."""
        from joulelab_actors.tune.experiment import Steering  # Ray Tune takes a second to import
        from joulelab_actors.tune.tune_queue import TuneQueue

        steering = Steering(
            folder=folder / "tune",
            objective=search.objective,
            num_gpus=len(gpus),
            scheduler=self.trial_scheduler,
            most_repeats=1 if self.trial_scheduler is None else SCHEDULED_REPEATS,
        )
        return TuneQueue(search, check, steering.run, most_repeats=steering.most_repeats)

    @override
    def work_on(
        self, gpu: Site, how: WorkerSettings, work: Callable[[GpuWorker], FoundT]
    ) -> FoundT:
        member = enlisted(gpu, how, time.monotonic() + NAME_TIMEOUT_S)
        try:
            return member.do(work)
        finally:
            if (call := member.release()) is not None:
                ray.wait([call], timeout=RELEASE_S)
            member.kill()

    @override
    def watch(self, study: str) -> Lifeline:
        return Lifeline(study)

    @override
    def let_go(self, gpus: Sequence[Site]) -> None:
        let_go([address.uuid for gpu in gpus for address in (gpu.address, *gpu.partners)])

    @override
    def score(
        self, space: SearchSpace, gpu: Site, folder: Path, *, metric: str | None = None
    ) -> Scores:
        """Score what every cell of ``space`` puts out, in a process beside ``gpu``; print it."""
        scores = score_beside(gpu, space, metric=metric, folder=folder)
        words = score_words(space, scores)
        Console().print(words, soft_wrap=True, highlight=False, markup=False)
        return scores

    @override
    def strategy(self, name: str) -> MakeStrategy:
        """Return what makes the search algorithm called ``name``, ours or Ray Tune's.

        Raises UnknownNameError if there is none, or no such scheduler; names the closest ones;
        ConfigError if it needs a package that is not installed.
        """
        from joulelab_actors.tune.algorithms import algorithm, scheduler

        scheduler(self.trial_scheduler, SCHEDULED_REPEATS)
        return algorithm(name)

    @override
    def console(self) -> Console:
        return Console(stderr=True)

    def where_tracked(self, summary: StudySummary) -> str:
        """Return where all studies can be compared, as a line to print; empty without a place."""
        if self.store_uri is None:
            return ""
        report = summary.delivery
        if report is not None and report.error is not None:
            why = report.trouble_words(self.study_dir(summary.study))
            return f"MLflow has not got all of this study: {why}"
        pages = discreet(self.tracking_uri or "") or f"joulelab ui {typed(self.results_dir)}"
        return f"All runs in MLflow: {pages}"

    @property
    @override
    def store_uri(self) -> str | None:
        if self.tracking_uri == "none":
            return None
        return default_store(self.root) if not self.tracking_uri else connectable(self.tracking_uri)

    def _check_places(self) -> None:
        """Refuse places that cannot be used, before anything is made there."""
        check_folder(self.root)
        if self.store_uri is not None:
            usable_uri(self.store_uri)
        if self.device == "simulated":
            for key in [self.gpu] if isinstance(self.gpu, str) else self.gpu:
                GPUS[key]
        if os.environ.get("RAY_ADDRESS"):  # what follows may be on other machines
            return
        check_guard_socket(self.guard_socket)
        store = self._store
        if self.device == "simulated" and store is not None:
            check_folder(Path(store))
        if self.device == "replay" and (store is None or not Path(store).is_dir()):
            DEVICES["replay"].discover(store)

    def _check_same_store(self, study: str) -> None:
        """Refuse to go on with a study elsewhere because its store's password is not kept."""
        header = ResultStore(self.study_dir(study)).read_study()
        if self.tracking_uri is None and header is not None and header.tracking_uri is not None:
            connectable(header.tracking_uri)

    @property
    def _store(self) -> str | None:
        return None if self.store is None else str(self.store.expanduser().absolute())

    def _sites(self, mixed: bool) -> tuple[Site, ...]:
        store = self._store
        if self.device == "simulated":
            found = simulated_sites(self.gpu, self._num_simulated, store, others=True)
        else:
            found = find_sites(self.device, store)
        found = of_product(found, self.gpu_product)
        if not mixed:
            require_one_product(found)
        require_enough(found, self.num_gpus)
        return found

    @property
    def _num_simulated(self) -> int:
        return self.num_gpus or max(SIMULATED_GPUS // self.gpus_per_trial, 1) * self.gpus_per_trial

    def _report(self, line: str) -> None:
        self.console().print(line, soft_wrap=True, highlight=False, markup=False)


def _beginning() -> str:
    """Say what takes some seconds before the first trial."""
    if ray.is_initialized():
        return "Looking for GPUs"
    address = os.environ.get("RAY_ADDRESS")
    where = f"Joining the Ray cluster at {address}" if address else "Starting Ray on this machine"
    return f"{where}, and looking for GPUs"
