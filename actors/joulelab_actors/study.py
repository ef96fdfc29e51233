"""Studies over the GPUs of a cluster, of which none is lost."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.choice import is_hardware
from joulelab.errors import JouleLabError
from joulelab.quality.cache import ScoreCache
from joulelab.searching.scores import Scores, score_space
from joulelab.searching.space import SearchSpace
from joulelab.study.events import StudyEvent
from joulelab.study.ledger import SearchSummary, StudySummary
from joulelab.study.progress import announced
from joulelab.study.resume import check_cost
from joulelab.study.run import Conclude, StudySetup, run_asked, run_trials
from joulelab.study.search_queue import Check, Search, SearchQueue
from joulelab.study.worker import WorkerSettings
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader
from joulelab.tracking.tracker_process import TrackerWriter
from joulelab.workloads import WORKLOADS
from joulelab.workloads.parcel import Parcel, pack, unpack
from joulelab_actors.placement import Site, beside_the_driver
from joulelab_actors.pool import Pool
from joulelab_actors.session import Lifeline

SCHEDULED_REPEATS = 5
"""Measurements of a configuration under a scheduler that does not stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStudy:
    """What a study on a cluster is carried out with.

    Attributes:
        sites: GPUs to use, from :mod:`joulelab_actors.placement`.
        results_dir: Results folder of the study, on a file system that every node sees. What
            a node stores where the driver cannot see it, the driver stores a second time.
        procedure: How to measure.
        observe_only: Whether to call no setter, ever.
        tracking_uri: MLflow store to deliver to; ``None`` for none.
        settings: Settings dataclass of the experiment, for the study's header.
        guard_socket: Where clock guards listen; ``None`` for each node's own.
        trial_scheduler: Name of the scheduler of Ray Tune that stops trials of a search early;
            ``None`` for none, and a trial is one measurement.
        on_event: Told what happens, in the driver's thread, as it happens.
    """

    sites: Sequence[Site]
    results_dir: Path
    procedure: Procedure
    observe_only: bool = False
    tracking_uri: str | None = None
    settings: object = None
    guard_socket: Path | None = None
    trial_scheduler: str | None = None
    on_event: Callable[[StudyEvent], None] = lambda event: None

    def setup(self, workloads: Collection[str]) -> StudySetup:
        """Return it as any study is set up.

        Args:
            workloads: Names of what is to run.

        Raises:
            ConfigError: If a program cannot travel to the nodes.
        """
        folder = self.results_dir.absolute()
        actors = WorkerSettings(
            results_dir=folder,
            procedure=self.procedure,
            observe_only=self.observe_only,
            guard_socket=self.guard_socket,
            programs=pack(WORKLOADS.programs, workloads),
        )
        return StudySetup(
            gpus=self.sites,
            folder=folder,
            make_pool=lambda: Pool(self.sites, actors),
            start_tracker=RayTrackerProcess,
            tracking_uri=self.tracking_uri,
            make_queue=self._make_queue,
            observe_only=self.observe_only,
            settings=self.settings,
            watch=Lifeline,
            on_event=self.on_event,
        )

    def _make_queue(self, search: Search, check: Check) -> SearchQueue:
        from joulelab_actors.tune.experiment import Steering  # Ray Tune takes a second to import
        from joulelab_actors.tune.tune_queue import TuneQueue

        steering = Steering(
            folder=self.results_dir.absolute() / "tune",
            objective=search.objective,
            num_gpus=len(self.sites),
            scheduler=self.trial_scheduler,
            most_repeats=1 if self.trial_scheduler is None else SCHEDULED_REPEATS,
        )
        return TuneQueue(search, check, steering.run, most_repeats=steering.most_repeats)


def run_study(
    trials: Sequence[Trial],
    cluster: ClusterStudy,
    conclude: Callable[[ResultStore], object] | None = None,
) -> StudySummary:
    """Measure ``trials`` on a cluster; see :func:`~joulelab.study.run.run_trials`."""
    workloads = {trial.configuration.workload for trial in trials}
    return run_trials(trials, cluster.setup(workloads), conclude)


def run_search(
    search: Search, cluster: ClusterStudy, conclude: Conclude | None = None
) -> SearchSummary:
    """Measure on a cluster what a strategy asks for; see :func:`~joulelab.study.run.run_asked`.

    Ray Tune starts every trial.
    """
    sentinel = search.sentinel
    workloads = () if sentinel is None else {sentinel.configuration.workload}
    return run_asked(search, cluster.setup(workloads), conclude)


class RayTrackerProcess:
    """A tracker's process that Ray starts on the driver's node, and again if it dies.

    Args:
        results_dir: Results folder of the study.
        uri: MLflow tracking URI.
        header: The study.
        niceness: By how much it gives way to other processes.
    """

    failure: type[Exception] = RayError

    def __init__(self, results_dir: str, uri: str, header: StudyHeader, niceness: int) -> None:
        remote: Any = ray.remote(TrackerWriter)
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 3}
        options["scheduling_strategy"] = beside_the_driver()
        self._actor = remote.options(**options).remote(results_dir, uri, header, niceness)

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """Have the writer do something, one after the other; return at once."""
        future: Future[Any] = getattr(self._actor, method).remote(*arguments).future()
        return future

    def end(self) -> None:
        """End the actor. Safe to call twice."""
        ray.kill(self._actor)


def score_beside(
    site: Site, space: SearchSpace, *, metric: str | None = None, folder: Path
) -> Scores:
    """Score what every cell of ``space`` puts out, each kind of outputs once.

    It is done in a process of its own beside the GPU, which ends with it: what computes while a
    GPU is measured would be measured with it. Scores are kept on that node's disk for all studies;
    those of a user's program, which may read files that nobody knows of, for this study alone.

    Args:
        site: The GPU that computes, where it is a real one; else the processor of its node does.
        space: What is searched.
        metric: Registry name of the metric; ``None`` for the first one of the workload.
        folder: Results folder of the study, as every node sees it.

    Raises:
        ConfigError: If the outputs cannot be scored, or the baseline's have no score; or if they
            could not be searched: a simulated GPU needs a cost.
    """
    check_cost(space.baseline, [site])
    make_remote: Any = ray.remote
    task = make_remote(max_calls=1)(_score).options(**_scoring_options(site))
    programs = pack(WORKLOADS.programs, {space.workload})
    try:
        with announced("Scoring what is put out"):
            scores: Scores = ray.get(task.remote(programs, space, metric, str(folder)))
    except RayTaskError as error:
        if isinstance(error.cause, JouleLabError):
            raise error.cause from None
        raise
    return scores


def _scoring_options(site: Site) -> dict[str, Any]:
    """Return the options that put a task beside a GPU: a real one computes, else the processor."""
    if is_hardware(site.address):
        return site.actor_options()
    return site.actor_options() | {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}}


def _score(
    programs: tuple[Parcel, ...], space: SearchSpace, metric: str | None, folder: str
) -> Scores:
    unpack(WORKLOADS.programs, programs)
    kept = [Path(folder) / "scores" / program.digest for program in programs]
    return score_space(space, metric=metric, cache=ScoreCache(kept[0]) if kept else None)
