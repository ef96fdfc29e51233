"""The trial that Ray Tune runs: it reports what came of one that a GPU of the pool measured."""

import os
from typing import Any

import ray
from ray import tune
from typing_extensions import override

TRIAL = "trial"
"""Key of a Tune configuration under which the pool's trial is named."""

_NICENESS = 10


class FollowedTrial(tune.Trainable):
    """Reports what came of a trial that has ended; it measures nothing and waits for nothing."""

    @override
    def setup(self, config: dict[str, Any], backlog: Any = None) -> None:
        os.nice(_NICENESS)  # once: Tune uses the process for one trial after another
        self._backlog = backlog

    @override
    def step(self) -> dict[str, Any]:
        result: dict[str, Any] = ray.get(self._backlog.result.remote(self.trial_id))
        return result | {tune.result.DONE: True}

    @override
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True
