"""Ray Tune at its own pace, in a thread beside the pool's."""

import logging
import os
import threading
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab_actors.search.leased_trial import TRIAL, LeasedTrial, start_board
from joulelab_actors.search.leases import Leases

MAX_CONCURRENT = 8
"""Most trial processes of Tune's; it only has to keep up, not to keep GPUs busy."""

_TRIALS_PER_EXPERIMENT = 100
"""Tune keeps its trials as long as an experiment lasts, so a long search makes several."""

_END_TIMEOUT_S = 300.0
_ABORT_TIMEOUT_S = 30.0

_log = logging.getLogger(__name__)


def tune_config(configuration: Configuration) -> dict[str, Any]:
    """Return a configuration as Tune shows it: the GPU's knobs and the workload's, by name."""
    return {**asdict(configuration.point), **dict(configuration.knobs)}


class TuneThread:
    """Runs Tune experiments whose trials are those that the pool begins.

    It is no part of what a search needs to go on: whatever goes wrong here is kept in
    :attr:`trouble`, and the results store has everything.

    Args:
        folder: Where Tune keeps its own tables, a folder for each experiment.
        num_gpus: GPUs that measure; so many processes, if not too many, wait for their results.
    """

    def __init__(self, folder: Path, *, num_gpus: int) -> None:
        self._board = start_board()
        self.leases = Leases(self._board.post.remote)
        self.trouble: str | None = None
        self._folder = folder
        self._num_processes = min(num_gpus, MAX_CONCURRENT)
        self._thread = threading.Thread(target=self._run, name="ray-tune", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let Tune take over what has ended but is unknown to it, and end."""
        self.leases.close()
        self._thread.join(_END_TIMEOUT_S if kind is None else _ABORT_TIMEOUT_S)
        if self._thread.is_alive():
            self.trouble = "Ray Tune did not come to its end in time."

    def _run(self) -> None:
        try:
            while not self.leases.is_over:
                self._fit()
        except Exception as error:
            _log.exception("Ray Tune failed; the search goes on without it.")
            self.trouble = f"Ray Tune failed: {error}".partition("\n")[0]

    def _fit(self) -> None:
        # Of Tune's writers only that of the results is wanted: TensorBoard's imports PyTorch and
        # waits for the disk at every trial. Its new output writes to standard output at any level.
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        trainable = tune.with_parameters(LeasedTrial, board=self._board)
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"CPU": 0.01}),
            tune_config=tune.TuneConfig(
                search_alg=_LeaseSearcher(self.leases),
                num_samples=-1,
                max_concurrent_trials=self._num_processes,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name=uuid4().hex[:8],
                storage_path=str(self._folder),
                callbacks=[JsonLoggerCallback()],  # type: ignore[no-untyped-call]
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=3),
                verbose=0,
            ),
        )
        tuner.fit()


class _LeaseSearcher(Searcher):
    """Suggests to Tune what the pool has begun."""

    def __init__(self, leases: Leases) -> None:
        super().__init__()
        self._leases = leases
        self._num_left = _TRIALS_PER_EXPERIMENT

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
