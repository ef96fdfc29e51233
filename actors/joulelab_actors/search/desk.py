"""Between a strategy and the pool: asks the one for the other, and tells it what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError
from joulelab.search.base import Outcome, Strategy
from joulelab_actors.events import AttemptFailed, PoolEvent, TrialMeasured
from joulelab_actors.search.backlog import TrialBook
from joulelab_actors.search.budget import Account, Budget
from joulelab_actors.search.history import History, trial_name
from joulelab_actors.search.outcomes import outcome_of, spent_j
from joulelab_actors.source import TrialSource

Scorer = Callable[[Configuration], tuple[float, float | None] | None]
"""Returns the share of the quality that is kept and its uncertainty; ``None`` if not known."""

Follower = Callable[[Outcome, float], None]
"""Told of every outcome that a strategy is told of, with the energy spent by then in joules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """A configuration that every GPU measures again and again, so that drift and boards show.

    Attributes:
        configuration: What is measured, first of all and then between the others; one that the
            strategy knows, which is told of it as of any other.
        every: Trials of a GPU between two of them.
    """

    configuration: Configuration
    every: int = 10

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"every must be at least 1, got {self.every}.")


class Desk(TrialSource):
    """Hands out trials that a strategy asks for while the budget lasts, and settles them.

    It lives in one thread, the pool's.

    Args:
        strategy: Whom to ask.
        study: Name of the study.
        book: Told of every trial as it ends.
        budget: When to stop.
        history: What earlier runs did; the strategy is told at once.
        check: Raises if a trial cannot be carried out.
        sentinel: What to measure between the others.
        score: What outputs are worth; called in the pool's thread, so it must only look up.
        follow: Told of outcomes, those of earlier runs first; also called in the pool's thread.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        study: str,
        book: TrialBook,
        budget: Budget | None = None,
        history: History | None = None,
        check: Callable[[Trial], None] = lambda trial: None,
        sentinel: Sentinel | None = None,
        score: Scorer = lambda configuration: None,
        follow: Follower = lambda outcome, spent_j: None,
    ) -> None:
        history = history or History()
        self._strategy = strategy
        self._study = study
        self._book = book
        self._check = check
        self._sentinel = sentinel
        self._score = score
        self._follow = follow
        self._repeats = history.repeats.copy()
        self._number = history.next_number
        self._since_sentinel = dict(history.since_sentinel)
        self._has_nothing = False
        self.account = Account(budget or Budget())
        self.num_recalled = len(history.trials)
        self.num_settled = 0
        self.trials = [*history.trials, *history.unfinished]
        self.stopped_by: str | None = None
        self._recall(history)

    @override
    def take(self, uuid: str) -> Trial | None:
        if self.is_done:
            return None
        if self._sentinel is not None and self._is_due(uuid, self._sentinel):
            self._since_sentinel[uuid] = 0
            return self._begin(self._sentinel.configuration, sentinel=True)
        candidate = None if self._has_nothing else self._strategy.ask()
        if candidate is None:
            self._has_nothing = True  # until it is told: every idle GPU comes and asks
            return None
        self._since_sentinel[uuid] = self._since_sentinel.get(uuid, 0) + 1
        return self._begin(candidate)

    @property
    @override
    def is_done(self) -> bool:
        if self.stopped_by is None:
            if self._strategy.is_done:
                self.stopped_by = "the strategy"
            elif (bound := self.account.exhausted) is not None:
                self.stopped_by = f"the budget of {bound}"
        return self.stopped_by is not None

    def note(self, event: PoolEvent) -> None:
        """Tell the strategy what an event says about a trial that needs no further try."""
        match event:
            case TrialMeasured():
                measurements = [record.measurement for record in event.records]
                self.account.spend(sum(map(spent_j, measurements)))
                if not event.retried:
                    self._settle(event.trial, outcome_of(measurements))
            case AttemptFailed(retried=False):
                candidate = event.trial.configuration
                self._settle(event.trial, Outcome(candidate=candidate, reason=event.detail))
            case _:
                pass

    def _recall(self, history: History) -> None:
        for outcome, energy_j in zip(history.outcomes, history.energies_j, strict=True):
            self.account.begin()
            self.account.spend(energy_j)
            self._tell(self._scored(outcome))
        self.account.spend(history.energy_j - self.account.energy_j)
        self.account.start()
        for _ in history.unfinished:
            self.account.begin()

    def _is_due(self, uuid: str, sentinel: Sentinel) -> bool:
        return self._since_sentinel.get(uuid, sentinel.every) >= sentinel.every

    def _begin(self, candidate: Configuration, *, sentinel: bool = False) -> Trial:
        repeat = self._repeats[candidate]
        trial = Trial(
            study=self._study,
            name=trial_name(self._number, candidate, repeat),
            configuration=candidate,
            repeat=repeat,
            sentinel=sentinel,
        )
        self._check(trial)
        self._repeats[candidate] += 1
        self._number += 1
        self.trials.append(trial)
        self.account.begin()
        return trial

    def _settle(self, trial: Trial, outcome: Outcome) -> None:
        scored = self._scored(outcome)
        self.num_settled += 1
        self._tell(scored)
        self._book.settle(trial, scored)

    def _tell(self, outcome: Outcome) -> None:
        self.account.end()
        self._strategy.tell(outcome)
        self._has_nothing = False
        self._follow(outcome, self.account.energy_j)

    def _scored(self, outcome: Outcome) -> Outcome:
        if outcome.figures is None or (found := self._score(outcome.candidate)) is None:
            return outcome
        retention, retention_u = found
        figures = replace(outcome.figures, retention=retention, retention_u=retention_u)
        return replace(outcome, figures=figures)
