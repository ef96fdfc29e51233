"""What a study needs of wherever it runs, be it this process or a Ray cluster."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Generic

from rich.console import Console

from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial, product_slug
from joulelab.errors import ConfigError
from joulelab.guard.inquiry import HOW_TO_OUTLIVE
from joulelab.guard.settings import GuardSettings
from joulelab.hardware.board_facts import BoardFacts, read_board_facts
from joulelab.searching.base import MakeStrategy
from joulelab.searching.scores import Scores
from joulelab.searching.space import SearchSpace
from joulelab.study.events import StudyEvent
from joulelab.study.gpu import Gpu, by_product
from joulelab.study.ledger import StudySummary
from joulelab.study.pool import WorkerPool
from joulelab.study.progress import StudyProgress
from joulelab.study.run import StudySetup, run_trials
from joulelab.study.search_queue import CheckTrial, Search, SearchQueue
from joulelab.study.worker import FoundT, GpuWorker, WorkerSettings
from joulelab.tracking.durable import check_folder
from joulelab.tracking.mlflow_calibrations import calibration_file, own_calibration
from joulelab.tracking.store import ResultStore
from joulelab.workloads.parcel import Parcel


class AbstractLab(ABC, Generic[Gpu]):
    """GPUs, how to measure on them, and a place for results."""

    study: str | None
    gpu_product: str | None
    results_dir: str | Path
    observe_only: bool
    guard_socket: Path | None
    procedure: Procedure
    calibration: Path | None

    @abstractmethod
    def open(self, *workloads: str, mixed: bool = False) -> AbstractContextManager[tuple[Gpu, ...]]:
        """Hold what a study needs, and yield the GPUs to use.

        ``workloads`` are names of what is to run. What can be refused before they are looked for is
        refused before. Where they may be ``mixed``, GPUs are of several products. Raises
        ConfigError if results cannot be written, a workload cannot run there, or GPUs are of
        several products; DeviceNotFoundError if there are too few GPUs.
        """

    def setup(
        self,
        gpus: Sequence[Gpu],
        folder: Path,
        workloads: Collection[str],
        *,
        settings: object,
        on_event: Callable[[StudyEvent], None],
        procedure: Procedure | None = None,
        kind: str | None = None,
    ) -> StudySetup:
        """Return what a study of a ``kind`` is carried out with; ``settings`` are for its header.

        ``procedure`` is how it measures, by default as the lab does without a calibration. What is
        stored where this process cannot see it, it stores a second time. Raises ConfigError if a
        workload cannot run there.
        """
        how = self.how(folder, workloads, procedure)
        return StudySetup(
            gpus=gpus,
            folder=folder,
            make_pool=lambda: self.pool(gpus, how),
            tracking_uri=self.store_uri,
            make_queue=lambda search, check: self.queue(search, check, gpus, folder),
            observe_only=self.observe_only,
            settings=settings,
            kind=kind,
            workloads=workloads,
            watch=self.watch,
            let_go=lambda: self.let_go(gpus),
            on_event=on_event,
        )

    def how(
        self, folder: Path, workloads: Collection[str], procedure: Procedure | None = None
    ) -> WorkerSettings:
        """Return how GPUs measure for a study, arguments and errors as of :meth:`setup`."""
        return WorkerSettings(
            results_dir=folder,
            procedure=procedure or self.procedure,
            observe_only=self.observe_only,
            guard_socket=self.guard_socket,
            programs=self.programs(workloads),
        )

    def facts(self, gpus: Sequence[Gpu]) -> BoardFacts | None:
        """Return what was measured once of one of ``gpus``; ``None`` without a calibration.

        Without one that is named, it is the newest of the first GPU in the store of results, if
        that has one of its driver and host. Raises ConfigError if the calibration is of none of
        them, or of another driver or host; TrackingError if it is a registered one, and the store
        has none of that name.
        """
        if self.calibration is None:
            if self.store_uri is None:
                return None
            return own_calibration(self.store_uri, gpus[0].identity, gpus[0].hostname)
        facts = read_board_facts(calibration_file(self.calibration, self.store_uri))
        gpu = next((each for each in gpus if each.uuid == facts.device.uuid), gpus[0])
        facts.check(gpu.identity, gpu.hostname)
        return facts

    def adapted(self, gpus: Sequence[Gpu], procedure: Procedure | None = None) -> Procedure:
        """Return ``procedure``, by default the lab's, as :meth:`facts` of ``gpus`` have it."""
        asked, facts = procedure or self.procedure, self.facts(gpus)
        return asked if facts is None else facts.adapted(asked)

    def _warn_of_guards(self, gpus: Sequence[Gpu]) -> None:
        """Say where clocks may stay set, unless none will be or a guard was named."""
        hosts = dict.fromkeys(gpu.hostname for gpu in gpus if not gpu.guard_outlives_job)
        if hosts and not self.observe_only and self.guard_socket is None:
            line = f"Clock guard on {', '.join(hosts)}: {HOW_TO_OUTLIVE}"
            self.console().print(line, soft_wrap=True, highlight=False, markup=False)

    @property
    @abstractmethod
    def store_uri(self) -> str | None:
        """MLflow store that results are delivered to, with its password; ``None`` for none."""

    @abstractmethod
    def pool(self, gpus: Sequence[Gpu], how: WorkerSettings) -> WorkerPool:
        """Return those who measure on ``gpus``."""

    def programs(self, _workloads: Collection[str]) -> tuple[Parcel, ...]:
        """Return users' programs for processes that do not find them by themselves.

        Raises ConfigError if one cannot be sent there.
        """
        return ()

    def queue(
        self, search: Search, check: CheckTrial, _gpus: Sequence[Gpu], _folder: Path
    ) -> SearchQueue:
        """Return the queue of a search."""
        return SearchQueue(search, check)

    def watch(self, _study: str) -> AbstractContextManager[object]:
        """Return what watches over the study of that name while it runs."""
        return nullcontext()

    def let_go(self, gpus: Sequence[Gpu]) -> None:
        """Let other studies have ``gpus``, which this one needs no more."""

    @abstractmethod
    def score(
        self, space: SearchSpace, gpu: Gpu, folder: Path, *, metric: str | None = None
    ) -> Scores:
        """Score what every cell of ``space`` puts out, beside ``gpu``, and tell it.

        The GPU computes where it is a real one. ``metric`` is a registry name; ``None`` for the
        first one of the workload. Raises ConfigError if the outputs cannot be scored, or the
        baseline's have no score.
        """

    @abstractmethod
    def work_on(self, gpu: Gpu, how: WorkerSettings, work: Callable[[GpuWorker], FoundT]) -> FoundT:
        """Return what ``work`` does of a worker on a GPU; raises what that raises."""

    @abstractmethod
    def strategy(self, name: str) -> MakeStrategy:
        """Return what makes the strategy called ``name``.

        Raises UnknownNameError if there is none; names the closest ones.
        """

    @abstractmethod
    def console(self) -> Console:
        """Return where progress is shown."""

    def folder(self, kind: str, gpus: Sequence[Gpu]) -> Path:
        """Return the results folder of a study, by its name or one of kind, GPU and time."""
        now = datetime.now().astimezone()
        return self.study_dir(self.study or study_name(kind, list(by_product(gpus)), now))

    def study_dir(self, study: str) -> Path:
        """Return the folder of one study's results."""
        return self.root / study

    @property
    def root(self) -> Path:
        """Folder for the results of all studies, as an absolute path."""
        return Path(self.results_dir).expanduser().absolute()

    def carry_out(
        self,
        trials: Sequence[Trial],
        gpus: Sequence[Gpu],
        folder: Path,
        *,
        settings: object,
        kind: str | None = None,
        procedure: Procedure | None = None,
        begin: Callable[[ResultStore], object] = lambda store: None,
        conclude: Callable[[ResultStore], object] | None = None,
    ) -> StudySummary:
        """Measure ``trials`` and show how far it is; see :func:`~joulelab.study.run.run_trials`.

        ``procedure`` is how it measures, by default as the lab does; a calibration adapts it.
        ``kind`` is that of the study. Raises ConfigError as :meth:`setup` and :meth:`facts` do.
        """
        workloads = {trial.configuration.workload for trial in trials}
        with StudyProgress(self.console()) as progress:
            setup = self.setup(
                gpus,
                folder,
                workloads,
                settings=settings,
                on_event=progress,
                procedure=self.adapted(gpus, procedure),
                kind=kind,
            )
            summary = run_trials(trials, replace(setup, begin=begin), conclude)
        self.require_some(summary)
        return summary

    def require_some(self, summary: StudySummary) -> None:
        """Refuse a study that came to nothing, where its caller would take it for a result."""


def study_name(kind: str, products: Sequence[str], now: datetime) -> str:
    """Return the name of a study, made of its kind, its product if it has one, and the time."""
    product = product_slug(products[0]) if len(products) == 1 else "mixed"
    return f"{plain(kind)}-{product}-{now:%Y%m%d-%H%M%S}"


def plain(text: str) -> str:
    """Return ``text`` as a part of a file's name: of a program, without folders and colons."""
    return re.sub(r"[^\w.=-]+", "-", text).strip("-.")


def check_guard_socket(path: Path | None) -> None:
    """Refuse, before anything is measured, a socket at which no clock guard can listen.

    Raises ConfigError if it is not absolute or too long, is another kind of file, or its folder is
    absent or cannot be written to.
    """
    if path is None or GuardSettings(socket_path=path).socket_path.is_socket():
        return
    if path.exists():
        raise ConfigError(f"A clock guard listens at a Unix socket, but {path} is none.")
    if not path.parent.parent.is_dir():
        raise ConfigError(
            f"A clock guard makes the folder of its socket, but {path.parent.parent} is no folder."
        )
    if path.parent.exists():
        check_folder(path.parent)
