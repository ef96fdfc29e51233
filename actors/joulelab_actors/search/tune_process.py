"""Ray Tune at its own pace, in a process beside the pool's."""

import logging
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import ray
from ray import tune
from ray.exceptions import GetTimeoutError, RayError
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.search.leased_trial import TRIAL, LeasedTrial, start_board
from joulelab_actors.search.leases import Leases

MAX_CONCURRENT = 8
"""Most trial processes of Tune's; it only has to keep up, not to keep GPUs busy."""

_TRIALS_PER_EXPERIMENT = 100
"""Tune keeps its trials as long as an experiment lasts, so a long search makes several."""

_END_TIMEOUT_S = 300.0
_ABORT_TIMEOUT_S = 30.0
_NICENESS = 10

_log = logging.getLogger(__name__)


def tune_config(configuration: Configuration) -> dict[str, Any]:
    """Return a configuration as Tune shows it: the GPU's knobs and the workload's, by name."""
    return {**asdict(configuration.point), **dict(configuration.knobs)}


class TuneActor:
    """Runs Tune experiments whose trials are those that the pool begins.

    In the driver's process Tune would keep the pool waiting for the interpreter's lock. The class
    is plain: :class:`TuneLink` puts it on the cluster, its methods but :meth:`run` in one thread.

    Args:
        folder: Where Tune keeps its own tables, a folder for each experiment.
        num_processes: Processes that wait for results.
        trials_per_experiment: Trials after which a new experiment begins.
    """

    def __init__(self, folder: str, num_processes: int, trials_per_experiment: int) -> None:
        os.nice(_NICENESS)
        self._board = start_board()
        self._leases = Leases(self._board.post.remote)
        self._folder = folder
        self._num_processes = num_processes
        self._num_trials = trials_per_experiment

    def begin(self, trial: Trial) -> None:
        """Offer a trial that has been given out."""
        self._leases.begin(trial)

    def settle(self, name: str, outcome: Outcome) -> None:
        """Note what came of a trial."""
        self._leases.settle(name, outcome)

    def close(self) -> None:
        """Note that no further trial will begin, and none that is out will end."""
        self._leases.close()

    @ray.method(concurrency_group="tune")
    def run(self) -> None:
        """Run experiments until Tune has taken over all that there will ever be."""
        while not self._leases.is_over:
            self._fit()

    def _fit(self) -> None:
        # Of Tune's writers only that of the results is wanted: TensorBoard's imports PyTorch and
        # waits for the disk at every trial. Its new output writes to standard output at any level.
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        trainable = tune.with_parameters(LeasedTrial, board=self._board)
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"CPU": 0.01}),
            tune_config=tune.TuneConfig(
                search_alg=_LeaseSearcher(self._leases, self._num_trials),
                num_samples=-1,
                max_concurrent_trials=self._num_processes,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name=uuid4().hex[:8],
                storage_path=self._folder,
                callbacks=[JsonLoggerCallback()],  # type: ignore[no-untyped-call]
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=3),
                verbose=0,
            ),
        )
        tuner.fit()


class TuneLink:
    """The driver's end: tells Tune's process of trials, without ever waiting for it.

    It is no part of what a search needs to go on: whatever goes wrong there is kept in
    :attr:`trouble`, and the results store has everything.

    Args:
        folder: Where Tune keeps its own tables.
        num_gpus: GPUs that measure; so many processes, if not too many, wait for their results.
    """

    def __init__(self, folder: Path, *, num_gpus: int) -> None:
        self.trouble: str | None = None
        self._actor = _start_actor(folder, min(num_gpus, MAX_CONCURRENT))
        self._running: Any = None

    def begin(self, trial: Trial) -> None:
        """Offer a trial that has been given out."""
        self._actor.begin.remote(trial)

    def settle(self, name: str, outcome: Outcome) -> None:
        """Note what came of a trial."""
        self._actor.settle.remote(name, outcome)

    def __enter__(self) -> Self:
        self._running = self._actor.run.remote()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let Tune take over what has ended but is unknown to it, and end."""
        self._actor.close.remote()
        try:
            ray.get(self._running, timeout=_END_TIMEOUT_S if kind is None else _ABORT_TIMEOUT_S)
        except GetTimeoutError:
            self.trouble = "Ray Tune did not come to its end in time."
        except RayError as failure:
            _log.warning("Ray Tune failed: %s", failure)
            cause = getattr(failure, "cause", failure)
            self.trouble = f"Ray Tune failed: {cause}".partition("\n")[0]
        ray.kill(self._actor)


class _LeaseSearcher(Searcher):
    """Suggests to Tune what the pool has begun."""

    def __init__(self, leases: Leases, num_trials: int) -> None:
        super().__init__()
        self._leases = leases
        self._num_left = num_trials

    @override
    def suggest(self, trial_id: str) -> Any:
        if not self._num_left:
            return self.FINISHED
        trial = self._leases.take_over(trial_id)
        if trial is None:
            return self.FINISHED if self._leases.is_over else None
        self._num_left -= 1
        return {TRIAL: trial.name, **tune_config(trial.configuration)}

    @override
    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        self._leases.let_go(trial_id)

    def __reduce__(self) -> tuple[type[Searcher], tuple[()]]:
        """Be nothing in Tune's snapshot, which nothing goes on from."""
        return Searcher, ()

    @override
    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: a search goes on from the results store."""

    @override
    def restore(self, checkpoint_path: str) -> None:
        """Find nothing: a search goes on from the results store."""


def _start_actor(folder: Path, num_processes: int) -> Any:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    make_remote: Any = ray.remote
    remote = make_remote(concurrency_groups={"tune": 1})(TuneActor)
    options = {"num_cpus": 0, "scheduling_strategy": here}
    return remote.options(**options).remote(str(folder), num_processes, _TRIALS_PER_EXPERIMENT)
