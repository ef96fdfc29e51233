"""The Tune experiment of a search: begun, restored after a kill, and ended with it."""

import json
import logging
import os
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.process import quiet
from joulelab.errors import DeviceError
from joulelab.objectives import Objective
from joulelab_actors.session import first_line
from joulelab_actors.tune.algorithms import scheduler
from joulelab_actors.tune.trainable import MeasuredTrial, config_of, configuration_of
from joulelab_actors.tune.tune_queue import TuneQueue
from joulelab_actors.tune.turnover import MOST_IDLE_S, Key, Pulse, name_of, num_processes

NAME = "search"
"""Of the experiment, and of its folder."""
END_S = 60.0
"""Longest wait for Tune to end once nothing is left to do; it takes 1 to 5 s."""
_MOST_DEATHS = 3  # times that the process of a trial may die; it asks again for what it asked for
_ENDED = (Trial.TERMINATED, Trial.ERROR)
_SETTINGS = {
    # Of Tune's writers only that of the results is wanted: TensorBoard's imports PyTorch and waits
    # for the disk at every trial. Its new output writes to standard output at any level.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    # An invalid measurement has a reason and no figures.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
}

_TABLE = "ray.tune.analysis.experiment_analysis"
"""Who reads, as Tune ends, a table that nobody asked for, and warns of each trial without figures,
as those that an interrupted search had under way."""

_log = logging.getLogger(__name__)
_queues: dict[str, TuneQueue] = {}
"""Queues of the searches that run in this process, by study: a restored searcher finds its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """How Ray Tune carries out a search; ``folder`` is where it keeps its own tables.

    ``scheduler`` names what stops trials early, if anything; each repeat is an iteration, of which
    a trial that is not stopped has ``most_repeats``.
    """

    folder: Path
    objective: Objective
    num_gpus: int
    scheduler: str | None = None
    most_repeats: int = 1

    @contextmanager
    def run(self, queue: TuneQueue) -> Generator[None]:
        """Run Tune in a thread for the length of a ``with`` block.

        Raises DeviceError if Tune failed, or hangs.
        """
        _queues[queue.study], queue.turnover.pulse = queue, Pulse(MOST_IDLE_S)
        thread = Thread(target=self._fit, args=(queue,), name="tune", daemon=True)
        thread.start()
        try:
            yield
        finally:
            queue.close()
            thread.join(END_S)
            del _queues[queue.study]
            if thread.is_alive():
                _log.warning("Ray Tune did not end within %g s.", END_S)

    def _fit(self, queue: TuneQueue) -> None:
        try:
            _import_without_mlflow()
            with _environment(_SETTINGS), quiet(_TABLE):
                self._tuner(queue).fit()
        except Exception as error:
            if queue.error is None:
                queue.error = DeviceError(
                    f"Ray Tune failed: {first_line(error)} What was measured is kept; say "
                    f"--study {queue.study} to go on."
                )
        finally:
            queue.close()

    def _tuner(self, queue: TuneQueue) -> tune.Tuner:
        """Return Tune's experiment of this search: restored if it was cut off, or a new one."""
        path = self.folder / NAME
        trainable = self._trainable(queue)
        if (trials := _cut_off(path)) is not None:
            begun = {t["trial_id"]: _key(t) for t in trials if t["status"] not in _ENDED}
            queue.restore(begun, [_key(t) for t in trials if t["status"] == Trial.TERMINATED])
            return tune.Tuner.restore(str(path), trainable, resume_unfinished=True)
        shutil.rmtree(path, ignore_errors=True)  # a new one gets all trials, from the store
        return tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                metric=self.objective.name,
                mode="min",
                search_alg=QueueSearcher(queue.study),
                scheduler=scheduler(self.scheduler, self.most_repeats),
                num_samples=-1,
                max_concurrent_trials=num_processes(self.num_gpus, self.most_repeats),
                reuse_actors=True,
                trial_name_creator=trial_name,
                trial_dirname_creator=trial_name,
            ),
            run_config=tune.RunConfig(
                name=NAME,
                storage_path=str(self.folder),
                callbacks=[Results(), LeanTrials()],  # type: ignore[no-untyped-call]
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=_MOST_DEATHS),
                stop=Ended(queue.study),
                verbose=0,
            ),
        )

    def _trainable(self, queue: TuneQueue) -> Any:
        trainable = tune.with_parameters(
            MeasuredTrial,
            exchange=queue.exchange,
            most_repeats=self.most_repeats,
            must_be_valid=False,
        )
        # On the driver's node: what starts there disturbs no GPU that is being measured elsewhere.
        here = f"node:{ray.util.get_node_ip_address()}"  # type: ignore[no-untyped-call]
        return tune.with_resources(
            trainable, tune.PlacementGroupFactory([{"CPU": 0.01, here: 0.0001}])
        )


class QueueSearcher(Searcher):
    """Suggests to Tune what a search of this process asks for."""

    def __init__(self, study: str) -> None:
        super().__init__()
        self._study = study

    @override
    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Say that the queue sees to it: Tune's own limiter forgets trials that were restored."""
        return True

    @override
    def suggest(self, trial_id: str) -> Any:
        queue = _queues.get(self._study)
        if queue is None or queue.error is not None:
            return self.FINISHED
        try:
            key = queue.suggest(trial_id)
        except Exception as error:
            queue.error = error
            return self.FINISHED
        if key is None:
            return self.FINISHED if queue.has_ended else None
        return config_of(*key)

    @override
    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if (queue := _queues.get(self._study)) is not None:
            queue.note_ended(trial_id, has_failed=error)

    def __reduce__(self) -> tuple[type[Searcher], tuple[str]]:
        """Be the searcher of the study, whatever process Tune restores it in."""
        return QueueSearcher, (self._study,)

    @override
    def save(self, checkpoint_path: str) -> None:
        # What Tune has ended cannot be restored to go on, be it with a larger budget.
        queue = _queues.get(self._study)
        has_ended = queue is None or queue.has_ended or queue.error is not None
        Path(checkpoint_path).write_text(json.dumps({"has_ended": has_ended}))

    @override
    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the snapshot of the trials, not of another moment, says what was begun."""


class Ended(tune.Stopper):
    """Stops all trials of a search that was interrupted."""

    def __init__(self, study: str) -> None:
        self._study = study

    @override
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    @override
    def stop_all(self) -> bool:
        queue = _queues.get(self._study)
        return queue is None or queue.is_done


class Results(JsonLoggerCallback):
    """Writes the results of trials, and closes the files of those that were stopped, too."""

    @override
    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        for trial in trials:
            self.log_trial_end(trial)


class LeanTrials(tune.Callback):
    """Drops the moving windows of a trial that is over, which will never get another result.

    Tune keeps two of them for each figure of a trial, of room for 64 values at least, and writes
    them into every snapshot: half of the memory that it takes for a trial. Their averages, with
    which it compares trials, stay.
    """

    @override
    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        trial.metric_n_steps.clear()


def trial_name(trial: Any) -> str:
    """Return what Tune calls a trial: its point, its configuration's hash, repeat, and id."""
    configuration, repeat = configuration_of(trial.config)
    name = name_of((configuration, repeat))
    return f"{configuration.point.label}-{name}-{trial.trial_id}"


def _cut_off(path: Path) -> list[dict[str, Any]] | None:
    """Return the trials of an experiment that did not come to its end; ``None`` without any."""
    states, searchers = (
        sorted(path.glob(each)) for each in ("experiment_state-*.json", "searcher-state-*.pkl")
    )
    try:
        has_ended = json.loads(searchers[-1].read_text())["has_ended"]
        states_of_trials = json.loads(states[-1].read_text())["trial_data"]
        trials = [json.loads(state) for state, _ in states_of_trials]
    except (IndexError, KeyError, OSError, ValueError):  # a kill can leave half of a file
        return None
    return None if has_ended else trials or None


def _key(trial: Mapping[str, Any]) -> Key:
    return configuration_of(trial["config"])


def _import_without_mlflow() -> None:
    """Import what Tune counts callbacks with, which imports MLflow where it can.

    That takes seconds of the processor and sets up the process, which needs none of it.
    """
    known = sys.modules.setdefault("mlflow", None)  # type: ignore[arg-type]
    try:
        import_module("ray.air.integrations.mlflow")
    finally:
        if known is None:
            del sys.modules["mlflow"]


@contextmanager
def _environment(settings: Mapping[str, str]) -> Generator[None]:
    """Set variables of the environment that are not set, for the length of a ``with`` block."""
    added = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
