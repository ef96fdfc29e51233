"""A search strategy of ours as an algorithm of Ray Tune's, for a Tuner of one's own."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures, MakeStrategy, Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies import STRATEGIES
from joulelab_actors.tune.trainable import config_of, configuration_of

_FIGURES = tuple(field.name for field in fields(Figures))


class StrategySearcher(Searcher):
    """Suggests what a strategy asks for, and tells it what the trials of Tune's came to.

    It saves what it was told, and is told it again when it is restored: strategies are
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
