"""Any strategy as a search algorithm of Ray Tune, for Tune experiments of one's own."""

from typing import Any

from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.search.base import Strategy
from joulelab_actors.search.outcomes import outcome_from
from joulelab_actors.search.tune_process import tune_config


class StrategySearcher(Searcher):
    """Suggests what a strategy asks for, and tells it what trials report.

    A trial is given the GPU's knobs and the workload's by their names, and reports the fields of
    :class:`~joulelab.search.base.Figures` by theirs, or else a ``reason``. Tune's snapshot does
    not hold the strategy: to go on from an earlier experiment, tell a new one first.

    Args:
        strategy: Whom to ask.
    """

    def __init__(self, strategy: Strategy) -> None:
        super().__init__()
        self._strategy = strategy
        self._out: dict[str, Configuration] = {}

    @override
    def suggest(self, trial_id: str) -> Any:
        candidate = None if self._strategy.is_done else self._strategy.ask()
        if candidate is None:
            return self.FINISHED if self._strategy.is_done else None
        self._out[trial_id] = candidate
        return tune_config(candidate)

    @override
    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        candidate = self._out.pop(trial_id)
        self._strategy.tell(outcome_from(candidate, {} if error else result or {}))

    @override
    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: results are told anew."""

    @override
    def restore(self, checkpoint_path: str) -> None:
        """Find nothing: results are told anew."""
