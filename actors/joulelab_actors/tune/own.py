"""Doors for a Tuner of one's own: a trainable on pinned GPUs, and strategies as its algorithms."""

import json
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from threading import Thread
from typing import Any

from ray import tune
from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.runner import Costs, asked_of
from joulelab.searching.base import Figures, MakeStrategy, Outcome, Strategy
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies import STRATEGIES
from joulelab.study.lab import StudyWorkload
from joulelab.study.ledger import SearchSummary
from joulelab.study.progress import StudyProgress
from joulelab.study.run import run_asked
from joulelab.study.search_queue import Search
from joulelab.workloads.program import Work
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import Site
from joulelab_actors.tune.trainable import MeasuredTrial, config_of, configuration_of
from joulelab_actors.tune.tune_queue import TuneQueue


@contextmanager
def measuring(
    program: object,
    *,
    knobs: Mapping[str, KnobValue] | None = None,
    point: OperatingPoint | None = None,
    repeats: int = 1,
    unit: str | None = None,
    work: Work | None = None,
    cost: Costs | None = None,
    lab: Laboratory | None = None,
) -> Generator[Any]:
    """Yield a trainable for a ``tune.Tuner``, whose trials are measured on the lab's GPUs.

    ::

        with measuring("llama", lab=Laboratory(gpu="h100_sxm", study="mine")) as trainable:
            tuner = tune.Tuner(
                trainable,
                param_space={"sm_clock_mhz": tune.choice([990, 1410, 1980]), "batch": 8},
                tune_config=tune.TuneConfig(metric="edp", mode="min", num_samples=20),
            )
            best = tuner.fit().get_best_result()

    A trial's configuration has the knobs of the program and ``sm_clock_mhz``, ``mem_clock_mhz`` and
    ``power_limit_w``; what it leaves out is as said here. Each iteration is a measurement and
    reports ``energy_j``, ``time_s``, ``power_w``, ``edp``, ``ed2p`` and what else is known, per
    unit of work; one without figures is an error of its trial. Results are kept as those of any
    study: a configuration's n-th repeat is measured once, and from then on answered from there,
    also for ``Tuner.restore`` after a kill, with the same ``study``.

    Args:
        program: As for :func:`joulelab.measure`.
        knobs: Values of knobs that trials leave out.
        point: Clocks and power limit that trials leave out; by default the driver's own.
        repeats: Iterations of a trial that no scheduler stops.
        unit: As for :func:`joulelab.measure`.
        work: As for :func:`joulelab.measure`.
        cost: As for :func:`joulelab.measure`.
        lab: The GPUs, how to measure, and where results go.

    Raises:
        ConfigError: If it cannot be carried out as asked for.
        DeviceError: If no GPU could be used.
        TrackingError: If results cannot be stored.
    """
    lab = lab or Laboratory()
    workload = StudyWorkload(program, knobs, unit=unit, work=work, cost=cost)
    with lab.open(workload.name) as gpus:
        workload.check(gpus)
        base = config_of(Configuration.of(workload.name, workload.settings, point))
        study = _OwnStudy(lab, gpus, workload)
        with study.running() as queue:
            yield tune.with_parameters(
                MeasuredTrial, exchange=queue.exchange, base=base, most_repeats=repeats
            )


class _OwnStudy:
    """A study in a thread beside a user's Tuner, which says what is measured."""

    def __init__(self, lab: Laboratory, gpus: tuple[Site, ...], workload: StudyWorkload) -> None:
        self._lab, self._gpus, self._workload = lab, gpus, workload
        self._queue: Future[TuneQueue] = Future()
        self._ended: Future[SearchSummary] = Future()

    @contextmanager
    def running(self) -> Generator[TuneQueue]:
        thread = Thread(target=self._run, name="joulelab-study", daemon=True)
        thread.start()
        try:
            queue = self._queue.result()
            try:
                yield queue
            finally:
                queue.close()
        except Exception as error:  # a Tuner without results says less than what ended the study
            if (cause := self._ended.exception()) is not None and cause is not error:
                raise cause from error
            raise
        finally:
            thread.join()
        self._ended.result()

    def _run(self) -> None:
        try:
            self._ended.set_result(self._measure())
        except BaseException as error:
            self._ended.set_exception(error)
            if not self._queue.done():
                self._queue.set_exception(error)

    def _measure(self) -> SearchSummary:
        lab, name = self._lab, self._workload.name
        folder = lab.folder(f"tune-{name}", self._gpus)
        header = asked_of(self._workload, "edp", lab)
        with StudyProgress(lab.console()) as progress:
            setup = lab.setup(
                self._gpus,
                folder,
                {name},
                settings=header,
                on_event=progress,
                procedure=lab.adapted(self._gpus),
            )
            own = replace(setup, make_queue=lambda search, check: self._made(search, check))
            return run_asked(Search(study=folder.name, strategy=_Asked()), own)

    def _made(self, search: Search, check: Any) -> TuneQueue:
        return TuneQueue(search, check, self._steered)

    @contextmanager
    def _steered(self, queue: TuneQueue) -> Generator[None]:
        self._queue.set_result(queue)
        yield


class _Asked(Strategy):
    """Asks for nothing: what is measured, the user's Tuner says."""

    @override
    def ask(self) -> None:
        return None

    @override
    def tell(self, outcome: Outcome) -> None:
        """Nothing depends on it."""

    @property
    @override
    def is_done(self) -> bool:
        return False


_FIGURES = tuple(field.name for field in fields(Figures))


class StrategySearcher(Searcher):
    """Suggests what a strategy asks for, and tells it what the trials of Tune's came to.

    It saves what it was given, and is given it again when it is restored: strategies are
    deterministic. What was under way then, Tune starts again. ``strategy`` is the name of one of
    :data:`~joulelab.searching.strategies.STRATEGIES`.
    """

    def __init__(self, problem: Problem, strategy: str = "model-guided", *, seed: int = 0) -> None:
        super().__init__(metric=problem.objective.name, mode="min")
        make: MakeStrategy = STRATEGIES[strategy]
        self._strategy = make(problem, seed=seed)
        self._under_way: dict[str, Configuration] = {}
        self._results: list[tuple[dict[str, Any], dict[str, Any]]] = []

    @override
    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return metric in {None, self.metric} and mode in {None, self.mode} and not config

    @override
    def suggest(self, trial_id: str) -> Any:
        candidate = self._strategy.ask()
        if candidate is None:
            return self.FINISHED if self._strategy.is_done else None
        self._under_way[trial_id] = candidate
        return config_of(candidate)

    @override
    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        candidate = self._under_way.pop(trial_id, None)
        if candidate is not None:
            self._tell(candidate, {} if error or result is None else result)

    @override
    def save(self, checkpoint_path: str) -> None:
        under_way = {trial_id: config_of(each) for trial_id, each in self._under_way.items()}
        Path(checkpoint_path).write_text(
            json.dumps({"results": self._results, "under_way": under_way})
        )

    @override
    def restore(self, checkpoint_path: str) -> None:
        state = json.loads(Path(checkpoint_path).read_text())
        for config, result in state["results"]:
            self._tell(configuration_of(config)[0], result)
        self._under_way = {
            trial_id: configuration_of(config)[0] for trial_id, config in state["under_way"].items()
        }

    def _tell(self, candidate: Configuration, result: dict[str, Any]) -> None:
        known = {name: result[name] for name in _FIGURES if name in result}
        self._results.append(
            (config_of(candidate), known | {"capped": result.get("capped", False)})
        )
        self._strategy.tell(_outcome(candidate, known, is_capped=result.get("capped", False)))


def _outcome(candidate: Configuration, known: dict[str, Any], *, is_capped: bool) -> Outcome:
    if not known:
        reason = "Its trial of Ray Tune's failed."
        return Outcome(candidate=candidate, reason=reason, capped=is_capped)
    return Outcome(candidate=candidate, figures=Figures(**known), capped=is_capped)
