"""Keeps small what Ray Tune holds of trials that are over."""

from typing import Any

from ray import tune
from typing_extensions import override


class LeanTrials(tune.Callback):
    """Drops the moving windows of a trial that is over, which will never get another result.

    Tune keeps two of them for each figure of a trial, of room for 64 values at least, and writes
    them into every snapshot: half of the memory that it takes for a trial. Their averages, with
    which it compares trials, stay.
    """

    @override
    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        trial.metric_n_steps.clear()
