"""Ray Tune at its own pace, in a process beside the pool's."""

import ctypes
import gc
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.search.backlog import Advance, Backlog
from joulelab_actors.search.followed_trial import TRIAL, FollowedTrial
from joulelab_actors.search.lean_trials import LeanTrials

TRIALS_PER_EXPERIMENT = 250
"""Tune keeps its trials as long as an experiment lasts, so a long search makes several."""

_WAIT_S = 60.0
"""Longest wait for a trial that ends; Tune itself would look once a second."""
_NICENESS = 10


def tune_config(configuration: Configuration) -> dict[str, Any]:
    """Return a configuration as Tune shows it: the GPU's knobs and the workload's, by name."""
    return {**asdict(configuration.point), **dict(configuration.knobs)}


class TuneActor:
    """Runs Tune experiments whose trials are those that the pool has measured.

    In the driver's process Tune would keep the pool waiting for the interpreter's lock. The class
    is plain: :class:`TuneLink` puts it on the cluster, its methods but :meth:`run` in one thread.

    Args:
        folder: Where Tune keeps its own tables, a folder for each experiment.
        trials_per_experiment: Trials after which a new experiment begins.
    """

    def __init__(self, folder: str, trials_per_experiment: int) -> None:
        os.nice(_NICENESS)
        self._backlog = Backlog()
        self._folder = folder
        self._num_trials = trials_per_experiment
        clear_empty(Path(folder))

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Note what came of a trial."""
        self._backlog.settle(trial, outcome)

    def result(self, tune_id: str) -> dict[str, Any]:
        """Return what came of a trial that Tune has taken over."""
        return self._backlog.result(tune_id)

    def close(self) -> None:
        """Note that no further trial will end."""
        self._backlog.close()

    def advance(self) -> Advance:
        """Return how far Tune has come."""
        return self._backlog.advance

    @ray.method(concurrency_group="tune")
    def run(self) -> None:
        """Run experiments until Tune has taken over all that there will ever be.

        One begins once there is a trial for it: none is without.
        """
        here = ray.get_runtime_context().current_actor
        trainable = tune.with_parameters(FollowedTrial, backlog=here)
        while self._backlog.wait():
            self._fit(tune.with_resources(trainable, {"CPU": 0.01}))
            give_back_memory()

    def _fit(self, trainable: Any) -> None:
        # Of Tune's writers only that of the results is wanted: TensorBoard's imports PyTorch and
        # waits for the disk at every trial. Its new output writes to standard output at any level.
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=_BacklogSearcher(self._backlog, self._num_trials),
                num_samples=-1,
                max_concurrent_trials=1,  # of several processes Tune would reuse only one
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name=uuid4().hex[:8],
                storage_path=self._folder,
                callbacks=[JsonLoggerCallback(), LeanTrials()],  # type: ignore[no-untyped-call]
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=3),
                verbose=0,
            ),
        )
        tuner.fit()


def clear_empty(folder: Path) -> None:
    """Remove folders of experiments without a trial's result, as a killed search leaves them.

    Args:
        folder: Where Tune keeps its tables; only one search at a time does.
    """
    for experiment in folder.glob("*/"):
        if not any(experiment.glob("*/result.json")):
            shutil.rmtree(experiment)


def give_back_memory() -> None:
    """Give the system what is free; the C library would keep it, and take more the next time."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it, and needs it
    if trim is not None:
        trim(0)


class _BacklogSearcher(Searcher):
    """Suggests to Tune what the pool has measured."""

    def __init__(self, backlog: Backlog, num_trials: int) -> None:
        super().__init__()
        self._backlog = backlog
        self._num_left = num_trials

    @override
    def suggest(self, trial_id: str) -> Any:
        if not self._num_left:
            return self.FINISHED
        trial = self._backlog.take(trial_id, timeout_s=_WAIT_S)
        if trial is None:
            return self.FINISHED if self._backlog.is_over else None
        self._num_left -= 1
        return {TRIAL: trial.name, **tune_config(trial.configuration)}

    @override
    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        self._backlog.let_go(trial_id)

    def __reduce__(self) -> tuple[type[Searcher], tuple[()]]:
        """Be nothing in Tune's snapshot, which nothing goes on from."""
        return Searcher, ()

    @override
    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: a search goes on from the results store."""

    @override
    def restore(self, checkpoint_path: str) -> None:
        """Find nothing: a search goes on from the results store."""
